/** The clock of the tests: the one that users of the library have for theirs. */

export { FakeClock as ManualClock } from "../../src/library/fake_clock.ts";
