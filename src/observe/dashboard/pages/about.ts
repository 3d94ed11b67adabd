/** What is known of the dashboard as a whole, for every part of a page. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { AboutBody } from "./types.ts";

export const About = createContext<AboutBody>({ version: "", store: "", read_only: true });

/** Whether anything may be changed here. */
export function useMayChange(): boolean {
  return !useContext(About).read_only;
}

/** Whether a page, or one below it, is shown. */
export function isNow(path: string, page: string): boolean {
  return page === "/" ? path === "/" : path === page || path.startsWith(`${page}/`);
}
