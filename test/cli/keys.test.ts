/** Jobs with a key: at most one of them is live, and the second enqueue does as it was told. */

import { describe, expect, test } from "bun:test";
import { expectRefusal, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

describe("a second enqueue with the key of a live job", () => {
  test("prints the id of the first and writes nothing", async () => {
    const place = newPlace();
    const first = await place.enqueue("-k", "nightly", "--", "echo", "first");
    const before = place.content();
    expect(await place.enqueue("-k", "nightly", "--", "echo", "second")).toBe(first);
    expect(await place.enqueue("-k", "nightly", "--if-exists", "skip", "--", "echo", "third")).toBe(first);
    expect(place.content()).toEqual(before);
    expect((await place.inspect(first)).argv).toEqual(["echo", "first"]);
  });

  test("fails with 1, names the other job and writes nothing with --if-exists fail", async () => {
    const place = newPlace();
    await place.enqueue("-k", "nightly", "--", "true");
    const before = place.content();
    const answer = await place.lease("enqueue", "-k", "nightly", "--if-exists", "fail", "--", "true");
    expectRefusal(answer, 1, /key nightly is taken by job 1 \(pending\)/);
    expect(place.content()).toEqual(before);
  });

  test("takes its place with --if-exists replace, and the first says why it went", async () => {
    const place = newPlace();
    const first = await place.enqueue("-k", "nightly", "--delay", "1h", "--", "echo", "old");
    const second = await place.enqueue("-k", "nightly", "--if-exists", "replace", "--", "echo", "new");
    expect(second).toBe(first + 1);
    expect(await place.inspect(first)).toMatchObject({
      state: "cancelled",
      reason: "replaced by a new job with key nightly",
    });
    expect(await place.inspect(second)).toMatchObject({ state: "pending", argv: ["echo", "new"] });
  });

  test("is a new job once the first has finished, whatever its end", async () => {
    const place = newPlace();
    for (const [index, argv] of [["true"], ["false"], ["sleep", "0"]].entries()) {
      const id = await place.enqueue("-k", "nightly", "--if-exists", "fail", "--retries", "0", "--", ...argv);
      expect(id).toBe(index + 1);
      if (index === 1) await place.lease("cancel", String(id));
      else await place.work();
    }
  });
});
