/**
 * Completion for bash 3.2 and later, without the bash-completion package. The fixed part walks the line as the scanner
 * does; the two tables in it, flags of a command and what a flag or a command's words take, are written from the model.
 */

import { NAME_SOURCES } from "../../core/values.ts";
import { filledIn, singleQuoted as quoted, type Model } from "./model.ts";

export function bashScript({ commands, front }: Model): string {
  const before = { name: "", options: front.map((option) => ({ ...option, names: [option.long] })), operand: null };
  const flags = [before, ...commands].map(({ name, options }) => {
    const all = options.flatMap(({ names }) => names);
    return `    ${name || "''"}) flags=${quoted(all.join(" "))} ;;`;
  });
  const values = [before, ...commands].flatMap(({ name, options, operand }) =>
    [...options, { names: [""], value: operand }].flatMap(({ names, value }) => {
      if (value === null) return [];
      const patterns = names.map((flag) => quoted(`${name} ${flag}`));
      const kind = value.list === true ? "list" : value.completer;
      return [`    ${patterns.join("|")}) kind=${kind} fixed=${quoted(value.words.join(" "))} ;;`];
    }),
  );
  return filledIn(TEMPLATE, {
    COMMANDS: quoted(commands.map(({ name }) => name).join(" ")),
    FLAGS: flags.join("\n"),
    VALUES: values.join("\n"),
    SOURCES: NAME_SOURCES.join("|"),
  });
}

const TEMPLATE = String.raw`# bash completion for lease; written by: lease completions bash
# Try it with: source <(lease completions bash)

# The flags of a command.
_lease_flags() {
  case $1 in
@FLAGS@
    *) flags= ;;
  esac
}

# What a flag of a command takes, or with no flag the command's words: kind and fixed; nothing for a flag without a value.
_lease_kind() {
  kind= fixed=
  case "$1 $2" in
@VALUES@
  esac
}

# Takes the lines of standard input that go on from what is typed, as they are written at that place: behind an open
# quote, which bash closes, or anywhere else.
_lease_offer() {
  local candidate _ quote= typed=$cur
  case $cur in [\'\"]*) quote=$\{cur:0:1} typed=$\{cur:1} ;; esac
  while IFS=$'\t' read -r candidate _; do
    [[ $candidate == "$typed"* ]] || continue
    case $quote in
      \') candidate=$\{candidate//\'/\'\\\'\'} ;;
      \") candidate=$(printf %s "$candidate" | sed 's/[\\$"\`]/\\&/g') ;;
      *) candidate=$(printf %q "$candidate") ;;
    esac
    COMPREPLY+=("$prefix$candidate")
  done
}

_lease_files() {
  local name
  compopt -o filenames 2>/dev/null
  while IFS= read -r name; do COMPREPLY+=("$prefix$name"); done < <(compgen "$1" -- "$cur")
}

# Completes cur by kind and fixed.
_lease_values() {
  local word
  # What stands before the last comma is there already.
  if [[ $kind == list && $cur == *,* ]]; then prefix+=$\{cur%,*}, cur=$\{cur##*,}; fi
  for word in $fixed; do [[ $word == "$cur"* ]] && COMPREPLY+=("$prefix$word"); done
  case $kind in
    @SOURCES@) _lease_offer < <("$program" completions --query "$kind" $\{where[@]+"$\{where[@]}"} 2>/dev/null) ;;
    files) _lease_files -f ;;
    folders) _lease_files -d ;;
    at_file) [[ $cur == @* ]] && { prefix+=@ cur=$\{cur#@}; _lease_files -f; } ;;
    program) _lease_files -c ;;
  esac
}

# Whether the flag, or the last one of a group like -fq, has its value in the next word.
_lease_takes_next() {
  local flag=$2
  if [[ $flag == -[!-]?* ]]; then
    _lease_kind "$1" "$\{flag:0:2}"
    [[ -n $kind ]] && return 1
    flag=-$\{flag: -1}
  fi
  _lease_kind "$1" "$flag"
  [[ -n $kind ]]
}

_lease() {
  local words=() where=() count=0 i at word line=$COMP_LINE command= value= rest= kind fixed flags prefix= cur program
  COMPREPLY=()
  line=$\{line#*"$\{COMP_WORDS[0]}"}
  words[0]=$\{COMP_WORDS[0]} count=1
  # bash has split the line at :, = and @, too; what had no space between is one word.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=$\{COMP_WORDS[i]}
    if [[ $line == [[:space:]]* || -z $line ]]; then words[count++]=$word; else words[count - 1]+=$word; fi
    line=$\{line#"$\{line%%[![:space:]]*}"}
    line=$\{line#"$word"}
  done
  program=$\{words[0]/#\~/$HOME}
  cur=$\{words[count - 1]}
  for ((i = 1; i < count - 1; i++)); do
    word=$\{words[i]}
    if [[ -n $value ]]; then
      case $value in --store|--config) where+=("$value=$\{word/#\~/$HOME}") ;; esac
      value=
      continue
    fi
    case $word in
      --) [[ -n $command ]] && rest=$((i + 1)) && break ;;
      --store=*|--config=*) where+=("$word") ;;
      --*=*) ;;
      -*) _lease_takes_next "$command" "$word" && value=$word ;;
      *)
        _lease_kind "$command" ""
        if [[ -z $command ]]; then command=$word
        elif [[ $kind == program ]]; then rest=$i && break
        fi
        ;;
    esac
  done
  if [[ -n $rest ]]; then
    if ((rest == count - 1)); then _lease_files -c; else _lease_files -f; fi
  elif [[ -n $value ]]; then
    _lease_takes_next "$command" "$value"
    _lease_values
  elif [[ $cur == --*=* ]]; then
    _lease_kind "$command" "$\{cur%%=*}"
    prefix=$\{cur%%=*}= cur=$\{cur#*=}
    _lease_values
  elif [[ $cur == -* ]]; then
    _lease_flags "$command"
    fixed=$flags kind=
    _lease_values
  elif [[ -z $command ]]; then
    fixed=@COMMANDS@ kind=
    _lease_values
  else
    _lease_kind "$command" ""
    _lease_values
  fi
  # bash replaces only what follows the last : or = that it splits at; with an @ it replaces both.
  cur=$\{words[count - 1]}
  for ((at = $\{#cur}; at > 0; at--)); do
    word=$\{cur:at - 1:1}
    [[ $word == [=:] && $COMP_WORDBREAKS == *"$word"* ]] || continue
    for ((i = 0; i < $\{#COMPREPLY[@]}; i++)); do COMPREPLY[i]=$\{COMPREPLY[i]#"$\{cur:0:at}"}; done
    break
  done
}

complete -F _lease lease
`;
