/** What lease is made of: a dependency at run time is a decision, and where packages are fetched from is each machine's own. */

import { describe, expect, test } from "bun:test";
import manifest from "../../package.json" with { type: "json" };
import { read, type SourceFile } from "./source.ts";

/** Each with its reason in the commit that added it. */
const AT_RUN_TIME = [
  "@opentelemetry/api",
  "@opentelemetry/exporter-trace-otlp-http",
  "@opentelemetry/exporter-trace-otlp-proto",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-trace",
  "citty",
  "consola",
  "croner",
  "hono",
  "postgres",
  "prom-client",
  "preact",
  "smol-toml",
  "uplot",
  "valibot",
];

/** Everything that is written here, nothing that is installed or built. */
const tree = async (): Promise<SourceFile[]> => [...(await read("*")), ...(await read("{src,test,scripts,.ci}/**/*"))];

/** What package.json declares for run time and is not on the list, and the reverse. */
function strayDependencies(dependencies: Record<string, string>, allowed: readonly string[]): string[] {
  const declared = Object.keys(dependencies);
  return [
    ...declared.filter((name) => !allowed.includes(name)).map((name) => `${name} is not an agreed dependency`),
    ...allowed.filter((name) => !declared.includes(name)).map((name) => `${name} is agreed but not declared`),
  ];
}

/** Those that may be another version tomorrow. */
function loose(versions: Readonly<Record<string, string>>): string[] {
  return Object.entries(versions).flatMap(([name, version]) =>
    /^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version) ? [] : [name],
  );
}

const FETCHED_FROM = [
  /https?:\/\/[^\s"'`]*\.tgz\b/,
  /https?:\/\/(?:registry|npm)\.[\w.-]+/,
  /\bregistry\s*[:=]\s*["']?(?:https?:)?\/\//,
];

/** Every line that says where packages come from. In bun.lock any address is one. */
function registryAddresses(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, source }) => {
    const patterns = path === "bun.lock" ? [/https?:\/\//] : FETCHED_FROM;
    return source
      .split("\n")
      .flatMap((line, index) => (patterns.some((pattern) => pattern.test(line)) ? [`${path}:${index + 1}`] : []));
  });
}

describe("dependencies", () => {
  test("those at run time are exactly the agreed ones", () => {
    expect(strayDependencies(manifest.dependencies, AT_RUN_TIME)).toEqual([]);
  });

  test("the check names one too many and one too few", () => {
    expect(strayDependencies({ citty: "1.0.0", "left-pad": "1.0.0" }, ["citty", "valibot"])).toEqual([
      "left-pad is not an agreed dependency",
      "valibot is agreed but not declared",
    ]);
  });

  test("each is pinned to one exact version, Bun as well, which scripts/setup.sh installs", () => {
    expect(loose({ ...manifest.dependencies, ...manifest.devDependencies })).toEqual([]);
    expect(loose({ a: "1.2.3", b: "^1.2.3", c: "~1.2", d: "latest", e: "1.2.3-rc.1" })).toEqual(["b", "c", "d"]);
  });
});

describe("package registries", () => {
  test("no file says where packages are fetched from", async () => {
    expect(registryAddresses(await tree())).toEqual([]);
  });

  test("the check looks at the lock file and at the scripts", async () => {
    const paths = (await tree()).map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(["bun.lock", "package.json", ".gitignore", "scripts/setup.sh"]));
  });

  // Put together here, so that this file passes its own check.
  const host = ["https:", "", "registry.example.com"].join("/");
  test.each([
    ["bun.lock", `"citty": ["citty@0.2.2", "${host}/citty", {}]`],
    ["bun.lock", '"citty": ["citty@0.2.2", "http://10.0.0.1/citty", {}]'],
    ["bunfig.toml", `registry = "${host}"`],
    [".npmrc", ["registry=", "//npm.example.com"].join("")],
    ["scripts/setup.sh", `curl ${host.replace("registry", "files")}/citty-0.2.2.${"t"}gz`],
  ])("the check refuses an address in %s", (path, source) => {
    expect(registryAddresses([{ path, source: `\n${source}\n` }])).toEqual([`${path}:2`]);
  });

  test("the check accepts other addresses", () => {
    const source = "See https://keepachangelog.com/ and postgres://localhost/queue\n";
    expect(registryAddresses([{ path: "README.md", source }])).toEqual([]);
  });
});
