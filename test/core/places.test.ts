import { describe, expect, test } from "bun:test";
import { assert, property, string } from "fast-check";
import { fillPlaces, hasPlace } from "../../src/core/places.ts";

describe("places in a command", () => {
  test.each([
    ["{}", "/a/b/c.tar.gz", "/a/b/c.tar.gz"],
    ["{.}", "/a/b/c.tar.gz", "/a/b/c.tar"],
    ["{.}", "/a.d/b", "/a.d/b"],
    ["{.}", ".profile", ".profile"],
    ["{/}", "/a/b/c.txt", "c.txt"],
    ["{/}", "c.txt", "c.txt"],
    ["{//}", "/a/b/c.txt", "/a/b"],
    ["{//}", "c.txt", "."],
    ["{//}", "/c.txt", "/"],
    ["{/.}", "/a/b/c.txt", "c"],
    ["{/.}", "/a/.profile", ".profile"],
    ["{#}", "x", "7"],
    ["{.}.png {/} {#}", "/a/b.jpg", "/a/b.png b.jpg 7"],
  ])("%s of %s is %s", (template, line, meaning) => {
    expect(fillPlaces(template, line, 7)).toBe(meaning);
  });

  test("are seen in a word, and nothing else is taken for one", () => {
    expect(hasPlace("{.}.png")).toBe(true);
    for (const word of ["{ }", "${x}", "{1}", "{..}", "a"]) expect(hasPlace(word)).toBe(false);
  });

  test("whatever the line is, it stands as it is in place of {}", () => {
    assert(property(string(), (line) => expect(fillPlaces("a{}b", line, 1)).toBe(`a${line}b`)));
  });
});
