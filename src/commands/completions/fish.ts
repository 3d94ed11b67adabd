/** Completion for fish: one `complete` line per command and flag, each with its description. */

import { filledIn, sourceOf, type Model, type Option, type Values } from "./model.ts";

export function fishScript({ commands, front }: Model): string {
  const valued = front.filter(({ value }) => value !== null).map(({ long }) => long);
  const lines = [
    ...commands.map(
      ({ name, description }) => `complete -c lease -n '__lease_in' -f -a ${name} -d ${quoted(description)}`,
    ),
    ...front.map((option) => `complete -c lease -n '__lease_in' ${optionText(option)}`),
    ...commands.flatMap(({ name, options, operand }) => [
      ...options.map((option) => `complete -c lease -n '__lease_in ${name}' ${optionText(option)}`),
      `complete -c lease -n '__lease_in ${name}' ${operandText(operand, options)}`,
    ]),
  ];
  return filledIn(TEMPLATE, { VALUED: valued.join(" "), LINES: lines.join("\n") });
}

function optionText({ names: [long = "", short], description, value }: Option): string {
  const spelt = `-l ${long.slice(2)}${short === undefined ? "" : ` -s ${short.slice(1)}`}`;
  return `${spelt}${value === null ? " -f" : ` -r ${argumentsText(value)}`} -d ${quoted(description)}`;
}

function operandText(values: Values, options: readonly Option[]): string {
  if (values.completer !== "program") return argumentsText(values);
  const valued = options.flatMap(({ names, value }) => (value === null ? [] : names));
  return `-f -a ${quoted(`(__lease_program ${valued.join(" ")})`)}`;
}

const FOUND = {
  none: "",
  files: "",
  folders: "(__fish_complete_directories)",
  at_file: "(__lease_at_file)",
  program: "",
} as const;

function foundBy(completer: Values["completer"]): string {
  const source = sourceOf(completer);
  return source === null ? FOUND[completer as keyof typeof FOUND] : `(__lease_ask ${source})`;
}

/** `-f`: no files beside it. */
function argumentsText({ words, completer, list = false }: Values): string {
  if (completer === "files") return "-F";
  if (list) return `-f -a ${quoted(`(__lease_list ${words.join(" ")})`)}`;
  const found = [...words, foundBy(completer)].filter((text) => text !== "").join(" ");
  return found === "" ? "-f" : `-f -a ${quoted(found)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", String.raw`\'`)}'`;
}

const TEMPLATE = String.raw`# fish completion for lease; written by: lease completions fish
# Keep it as ~/.config/fish/completions/lease.fish, or try it with: lease completions fish | source

# Prints the words of the line before the cursor that come behind the command's name; answers whether that is $argv[1],
# or with none whether there is no command yet.
function __lease_in
    set -l words (commandline -opc)
    set -l valued @VALUED@
    set -l skip 0
    for word in $words[2..-1]
        if test $skip -eq 1
            set skip 0
        else if contains -- $word $valued
            set skip 1
        else if not string match -q -- '-*' $word
            test "$word" = "$argv[1]"
            return
        end
    end
    test (count $argv) -eq 0
end

# Names from the store that the line names, with what they are.
function __lease_ask
    set -l words (commandline -opc)
    set -l where
    for i in (seq 2 (count $words))
        switch $words[$i]
            case --store --config
                test $i -lt (count $words); and set -a where $words[$i]=(string replace -r '^~' $HOME -- $words[(math $i + 1)])
            case '--store=*' '--config=*'
                set -a where $words[$i]
        end
    end
    command $words[1] completions --query $argv[1] $where 2>/dev/null
end

# Several of these words with commas between: behind what stands before the last comma.
function __lease_list
    set -l typed (string replace -r -- '^--?[a-z-]+=' '' (commandline -ct))
    printf '%s\n' (string replace -r -- '[^,]*$' '' $typed)$argv
end

function __lease_at_file
    set -l word (commandline -ct)
    string match -q '@*' -- $word; and printf '@%s\n' (__fish_complete_path (string sub -s 2 -- $word))
end

# The command line behind --, or from the first word on that is neither a flag nor the value of one of $argv.
function __lease_program
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l inner
    set -l skip 0
    set -l commands 0
    for i in (seq 2 (count $words))
        if test $skip -eq 1
            set skip 0
        else if test "$words[$i]" = --
            set inner $words[(math $i + 1)..-1]
            set commands 2
            break
        else if contains -- $words[$i] $argv
            set skip 1
        else if not string match -q -- '-*' $words[$i]
            # The first is the name of our own command.
            set commands (math $commands + 1)
            if test $commands -eq 2
                set inner $words[$i..-1]
                break
            end
        end
    end
    if test $commands -lt 2; and string match -q -- '-*' $current
        return
    end
    set -l line (string join ' ' -- (string escape -- $inner) $current)
    string match -q -- '-*' $line; or complete -C "$line"
end

# All there is to complete.
complete -c lease -e
@LINES@
`;
