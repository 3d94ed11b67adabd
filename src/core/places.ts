/**
 * What a line of text, or a number, takes the place of in a command, as GNU parallel writes it:
 *
 *     {}   the line             {/}   its last part: c.tar.gz of /a/b/c.tar.gz     {#}   the number of the job, from 1
 *     {.}  without its ending   {//}  the folder: /a/b, or .                       {/.}  the last part without its ending
 */

const PLACES = /\{(?:\.|\/\/?|\/\.|#)?\}/g;

export function hasPlace(template: string): boolean {
  return template.search(PLACES) !== -1;
}

export function fillPlaces(template: string, line: string, number: number, shown = (text: string) => text): string {
  // Almost all commands have only this one.
  return template.replaceAll(PLACES, (place) => shown(place === "{}" ? line : meaningOf(place, line, number)));
}

function meaningOf(place: string, line: string, number: number): string {
  switch (place) {
    case "{#}":
      return String(number);
    case "{.}":
      return withoutEnding(line);
    case "{/}":
      return lastPart(line);
    case "{/.}":
      return withoutEnding(lastPart(line));
    default:
      return folderOf(line);
  }
}

/** A dot that begins the last part begins no ending: `.profile` stays. */
function withoutEnding(path: string): string {
  return path.replace(/(?<=[^/])\.[^./]*$/, "");
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function folderOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end === -1 ? "." : path.slice(0, Math.max(1, end));
}
