/** The keyboard: `/` looks for something, `j` and `k` go through a list, `g` and a letter goes to a page. */

import { useEffect } from "preact/hooks";
import { Dialog } from "./parts.tsx";
import { go } from "./router.ts";

const PLACES: Readonly<Record<string, string>> = {
  o: "/",
  j: "/jobs",
  q: "/queues",
  w: "/workers",
  s: "/schedules",
  f: "/failures",
};
const SECOND_KEY_MS = 1_000;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

/** The rows of the lists on the page, in order. */
function rows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("main [data-row]")].filter((row) => row.offsetParent !== null);
}

function step(by: 1 | -1): void {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at < 0 ? (by === 1 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next?.querySelector<HTMLElement>("a, button")?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export function useKeys(help: () => void): void {
  useEffect(() => {
    let going_until_ms = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
      const target = event.target;
      if (isTyping(target)) {
        if (event.key === "Escape") (target as HTMLElement).blur();
        return;
      }
      const place = performance.now() < going_until_ms ? PLACES[event.key] : undefined;
      going_until_ms = event.key === "g" ? performance.now() + SECOND_KEY_MS : 0;
      if (place !== undefined) go(place);
      else if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      else if (event.key === "?") help();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

const KEYS: readonly [keys: string, text: string][] = [
  ["/", "search jobs"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  ["g o", "overview"],
  ["g j", "jobs"],
  ["g q", "queues"],
  ["g w", "workers"],
  ["g s", "schedules"],
  ["g f", "failures"],
  ["Esc", "leave a field or a dialog"],
  ["?", "these keys"],
];

export function KeysHelp({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {KEYS.map(([keys, text]) => (
          <div key={keys}>
            <dt>
              {keys.split(/ +/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
