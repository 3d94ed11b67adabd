/** Completion for zsh: one `_arguments` call per command, with the description of every flag. */

import { filledIn, singleQuoted as quoted, sourceOf, type Model, type Option, type Values } from "./model.ts";

export function zshScript({ commands, front }: Model): string {
  const described = commands.map(({ name, description }) => `    ${quoted(`${name}:${description}`)}`);
  const cases = commands.map(({ name, options, operand }) => {
    const specs = [...options.flatMap(optionSpecs), ...operandSpecs(operand)];
    return `    ${name})\n      _arguments -s -S ${specs.map((spec) => `\\\n        ${spec}`).join(" ")}\n      ;;`;
  });
  const frontSpecs = front.flatMap(optionSpecs).map((spec) => `    ${spec} \\`);
  return filledIn(TEMPLATE, {
    COMMANDS: described.join("\n"),
    FRONT: frontSpecs.join("\n"),
    CASES: cases.join("\n"),
  });
}

/** `'(-q --queue)'{-q+,--queue=}'[Queue]:NAME:_lease_queues'`, as one word per spelling: no brace expansion needed. */
function optionSpecs({ long, names, description, repeatable, value }: Option): string[] {
  const excluded = repeatable ? "*" : `(${names.join(" ")})`;
  const message = value === null ? "" : `:${escaped(value.hint)}:${actionOf(value)}`;
  return names.map((name) => {
    const joint = value === null ? "" : name === long ? "=" : "+";
    return quoted(`${excluded}${name}${joint}[${escaped(description)}]${message}`);
  });
}

function operandSpecs(values: Values): string[] {
  if (values.completer === "program")
    return [quoted("(-)1:command: _command_names -e"), quoted("*::argument: _normal")];
  if (values.completer === "none" && values.words.length === 0) return [];
  return [quoted(`*:word:${actionOf(values)}`)];
}

const ACTIONS = {
  none: " ",
  files: "_files",
  folders: "_files -/",
  at_file: "_lease_at_file",
  program: "_command_names -e",
} as const;

/** With a space before it it is called with just these words. */
function foundBy(completer: Values["completer"]): string {
  const source = sourceOf(completer);
  return source === null ? ACTIONS[completer as keyof typeof ACTIONS] : ` _lease_ask ${source}`;
}

function actionOf({ words, completer, list = false }: Values): string {
  if (words.length === 0) return foundBy(completer);
  if (list) return ` _lease_list ${words.join(" ")}`;
  if (completer === "none") return `(${words.join(" ")})`;
  return `{ compadd -- ${words.join(" ")}; ${foundBy(completer)} }`;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\[\]:]/g, (character) => `\\${character}`);
}

const TEMPLATE = String.raw`#compdef lease
# zsh completion for lease; written by: lease completions zsh
# Keep it as _lease in a folder of $fpath, or try it with: source <(lease completions zsh)

# Names from the store that the line names, with what they are.
_lease_ask() {
  local kind=$1 line name i
  local -a names described where
  for ((i = 1; i < $#_lease_line; i++)); do
    case $_lease_line[i] in
      --store|--config) where+=("$_lease_line[i]=$\{(Q)_lease_line[i + 1]/#\~/$HOME}") ;;
      --store=*|--config=*) where+=("$\{(Q)_lease_line[i]}") ;;
    esac
  done
  for line in "$\{(@f)$(_call_program $kind $\{(q)_lease_line[1]} completions --query $kind $\{(q)where} 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    name=$\{line%%$'\t'*}
    names+=("$name")
    described+=("$\{line/$'\t'/  }")
  done
  (( $#names )) && compadd -V $kind -d described -a names
}

# Several of these words with commas between.
_lease_list() {
  compset -P '*,'
  compadd -- "$@"
}

_lease_at_file() {
  compset -P @ && _files
}

_lease() {
  local curcontext=$curcontext state
  local -a line _lease_commands _lease_line
  local -A opt_args
  _lease_line=("$\{words[@]}")
  _lease_commands=(
@COMMANDS@
  )
  _arguments -C -S \
@FRONT@
    '1: :->command' \
    '*:: :->words' && return
  case $state in
    command) _describe -t commands command _lease_commands ;;
    words)
      curcontext=$\{curcontext%:*:*}:lease-$words[1]:
      _lease_words
      ;;
  esac
}

_lease_words() {
  # _arguments does not see the end of the flags where they have not begun.
  if [[ $words[2] == -- ]] && ((CURRENT > 2)); then
    words[2]=()
    ((CURRENT--))
  fi
  case $words[1] in
@CASES@
  esac
}

if [[ $funcstack[1] == _lease ]]; then _lease "$@"; else compdef _lease lease; fi
`;
