/** The frame around every page: where to go, what to look for, whether it is live, and the keys. */

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { About, isNow } from "./about.ts";
import { Failures } from "./failures.tsx";
import { KeysHelp, useKeys } from "./keys.tsx";
import { JobPage } from "./job.tsx";
import { Jobs } from "./jobs.tsx";
import { useLink } from "./live_client.ts";
import { Login, tokenInAddress } from "./login.tsx";
import { Overview } from "./overview.tsx";
import { Empty, Section } from "./parts.tsx";
import { Queues } from "./queues.tsx";
import { load, Refusal, send, toastListeners, type Toast } from "./requests.ts";
import { catchLinks, go, usePlace, type Place } from "./router.ts";
import { Schedules } from "./schedules.tsx";
import { cycleTheme, themeName } from "./theme.ts";
import type { AboutBody } from "./types.ts";
import { Workers } from "./workers.tsx";

const PAGES: readonly [path: string, title: string][] = [
  ["/", "Overview"],
  ["/jobs", "Jobs"],
  ["/queues", "Queues"],
  ["/schedules", "Schedules"],
  ["/workers", "Workers"],
  ["/failures", "Failures"],
];

function Page({ place }: { place: Place }) {
  const [, first = "", second = ""] = place.path.split("/");
  useEffect(() => {
    const title = PAGES.find(([path]) => path === place.path)?.[1] ?? (second === "" ? "" : `Job ${second}`);
    document.title = title === "" || place.path === "/" ? "lease" : `${title} · lease`;
  }, [place.path]);
  if (place.path === "/") return <Overview />;
  if (first === "jobs" && second !== "") return <JobPage key={second} id={Number(second)} />;
  if (first === "jobs") return <Jobs place={place} />;
  if (first === "queues") return <Queues />;
  if (first === "workers") return <Workers />;
  if (first === "schedules") return <Schedules />;
  if (first === "failures") return <Failures />;
  return (
    <Section title="Not here">
      <Empty>
        There is no such page. <a href="/">Overview</a>
      </Empty>
    </Section>
  );
}

function Search({ place }: { place: Place }) {
  const field = useRef<HTMLInputElement>(null);
  const asked = place.path === "/jobs" ? (place.query.get("q") ?? "") : "";
  useEffect(() => {
    if (field.current !== null) field.current.value = asked;
  }, [asked, place.path]);
  const look = (event: Event) => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    const query = place.path === "/jobs" ? new URLSearchParams(place.query) : new URLSearchParams();
    query.delete("before");
    if (text === "") query.delete("q");
    else query.set("q", text);
    go(query.size === 0 ? "/jobs" : `/jobs?${query}`);
    field.current?.blur();
  };
  return (
    <form class="search" role="search" onSubmit={look}>
      <input
        ref={field}
        id="search"
        type="search"
        placeholder="Search command, key, task, error"
        aria-label="Search jobs by command, key, task or error text"
        autoComplete="off"
        spellcheck={false}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

const LINKS = { idle: "idle", live: "live", connecting: "connecting", lost: "connection lost, trying again" } as const;

function Head({ place, about, help }: { place: Place; about: AboutBody; help: () => void }) {
  const link = useLink();
  const [theme, setTheme] = useState(themeName());
  const nav = useRef<HTMLElement>(null);
  // On a phone there are more pages than fit: the one that is open is in sight.
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [place.path]);
  return (
    <header class="top">
      <a class="brand" href="/" aria-label="lease, overview">
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M12 3.2a8.8 8.8 0 1 1-8.25 5.75" />
          <circle cx="12" cy="12" r="2.9" />
        </svg>
        lease
      </a>
      <nav ref={nav} aria-label="Pages">
        {PAGES.map(([path, title]) => (
          <a key={path} href={path} aria-current={isNow(place.path, path) ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Search place={place} />
      <span class={`link is-${link}`} role="status" title={`${LINKS[link]} · ${about.store}`}>
        <i aria-hidden="true" />
        <span>{link === "lost" ? "offline" : link}</span>
      </span>
      <button
        type="button"
        class="quiet icon"
        title={`theme: ${theme}`}
        aria-label={`theme: ${theme}`}
        onClick={() => setTheme(cycleTheme())}
      >
        {theme === "light" ? "☀" : theme === "dark" ? "☾" : "◐"}
      </button>
      <button type="button" class="quiet icon" title="keys (?)" aria-label="keyboard shortcuts" onClick={help}>
        ?
      </button>
    </header>
  );
}

function Toasts() {
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  useEffect(() => {
    toastListeners.add(setToasts);
    return () => void toastListeners.delete(setToasts);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, text, bad, href }) => (
        <p key={id} class={bad ? "is-bad" : ""}>
          {text} {href === undefined ? null : <a href={href}>show</a>}
        </p>
      ))}
    </div>
  );
}

function Frame({ about }: { about: AboutBody }) {
  const place = usePlace();
  const [helping, setHelping] = useState(false);
  useKeys(() => setHelping((now) => !now));
  return (
    <About.Provider value={about}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Head place={place} about={about} help={() => setHelping(true)} />
      <main id="main" tabIndex={-1}>
        <Page place={place} />
      </main>
      <footer>
        <span class="mono">{about.store}</span>
        <span>
          {about.read_only ? "read-only · " : ""}lease {about.version}
        </span>
      </footer>
      <Toasts />
      {helping ? <KeysHelp close={() => setHelping(false)} /> : null}
    </About.Provider>
  );
}

/** Before it is known: shows, and offers nothing. */
const UNKNOWN: AboutBody = { version: "", store: "", read_only: true };

function Door() {
  const [token] = useState(tokenInAddress);
  const [about, setAbout] = useState<AboutBody | null>(null);
  const [locked, setLocked] = useState<string | null>(null);
  const enter = async (given: string | null) => {
    try {
      if (given !== null) await send("/login", { token: given });
      setAbout(await load<AboutBody>("/about"));
      setLocked(null);
    } catch (error) {
      setLocked(error instanceof Refusal ? error.message : "lease ui does not answer: is it still running?");
    }
  };
  useEffect(() => void enter(token), []);
  if (locked !== null) return <Login message={locked} enter={enter} />;
  // Most often nobody is asked for a token: what is shown need not wait to hear that.
  return token !== null && about === null ? null : <Frame about={about ?? UNKNOWN} />;
}

catchLinks();
const root = document.getElementById("app");
if (root !== null) render(<Door />, root);
