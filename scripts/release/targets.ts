/** The systems that a release is made for, by the names that its files, npm and Debian and RPM have for them. */

export interface Target {
  /** As in the names of files, of the kind that mise, aqua and ubi find by themselves. */
  name: string;
  /** For processors without AVX2 where there is a choice: what is a little slower there would not start here at all. */
  bun: string;
  os: "linux" | "darwin";
  cpu: "x64" | "arm64";
  libc?: "glibc" | "musl";
  deb?: string;
  rpm?: string;
}

export const TARGETS: readonly Target[] = [
  {
    name: "linux-x64",
    bun: "bun-linux-x64-baseline",
    os: "linux",
    cpu: "x64",
    libc: "glibc",
    deb: "amd64",
    rpm: "x86_64",
  },
  {
    name: "linux-arm64",
    bun: "bun-linux-arm64",
    os: "linux",
    cpu: "arm64",
    libc: "glibc",
    deb: "arm64",
    rpm: "aarch64",
  },
  { name: "linux-x64-musl", bun: "bun-linux-x64-baseline-musl", os: "linux", cpu: "x64", libc: "musl" },
  { name: "linux-arm64-musl", bun: "bun-linux-arm64-musl", os: "linux", cpu: "arm64", libc: "musl" },
  { name: "darwin-x64", bun: "bun-darwin-x64-baseline", os: "darwin", cpu: "x64" },
  { name: "darwin-arm64", bun: "bun-darwin-arm64", os: "darwin", cpu: "arm64" },
];

export function targetNamed(name: string): Target {
  const found = TARGETS.find((target) => target.name === name);
  if (!found)
    throw new Error(`there is no target ${name}; there are ${TARGETS.map((target) => target.name).join(", ")}`);
  return found;
}
