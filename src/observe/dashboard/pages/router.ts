/** Where we are: the address is the page and its filters, and the only place where they are kept. */

import { useEffect, useState } from "preact/hooks";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const CHANGED = "lease:place";

function here(): Place {
  return { path: location.pathname.replace(/\/+$/, "") || "/", query: new URLSearchParams(location.search) };
}

export function go(url: string, options: { replace?: boolean } = {}): void {
  if (url === location.pathname + location.search) return;
  history[options.replace ? "replaceState" : "pushState"](null, "", url);
  window.dispatchEvent(new Event(CHANGED));
}

/** The same page with other filters; an empty text takes one away. */
export function withFilters(place: Place, filters: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(place.query);
  for (const [name, value] of Object.entries(filters)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return text === "" ? place.path : `${place.path}?${text}`;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const changed = () => setPlace(here());
    const moved = () => {
      changed();
      window.scrollTo(0, 0);
    };
    window.addEventListener("popstate", changed);
    window.addEventListener(CHANGED, moved);
    return () => {
      window.removeEventListener("popstate", changed);
      window.removeEventListener(CHANGED, moved);
    };
  }, []);
  return place;
}

/** Links to our own pages don't load the document again. */
export function catchLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest?.("a[href]");
    const href = link?.getAttribute("href") ?? "";
    if (!href.startsWith("/") || href.startsWith("/api/") || link?.hasAttribute("download")) return;
    event.preventDefault();
    go(href);
  });
}
