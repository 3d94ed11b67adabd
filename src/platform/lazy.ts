/** Parts of the runtime that are loaded when they are asked for, and not before: every start pays for what it loads. */

import process from "node:process";

export const lazyFs = () => process.getBuiltinModule("node:fs");
export const lazyUtil = () => process.getBuiltinModule("node:util");
export const lazyPath = () => process.getBuiltinModule("node:path");
