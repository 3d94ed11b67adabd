/** What the scripts of all three shells need: words in quotes, and templates that may hold `${`. */

/** In single quotes, for bash and zsh. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A template writes `$\{` where the shell has braces of its own. */
export function unescaped(template: string): string {
  return template.replaceAll(String.raw`$\{`, "${");
}
