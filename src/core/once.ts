/** Something that is made when it is first asked for: every start pays for what is made at load. */

export type Made<T> = () => T;

export function once<T>(make: () => T): Made<T> {
  let made: T | undefined;
  return () => (made ??= make());
}
