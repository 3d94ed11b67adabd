/** The environment as a program of somebody else may read it, which on Deno is a right that it may not have. */

import { platform } from "#platform";

export const readableEnv: Readonly<Record<string, string | undefined>> = new Proxy(
  {},
  { get: (_target, name) => (typeof name === "string" ? platform.variable(name) : undefined) },
);
