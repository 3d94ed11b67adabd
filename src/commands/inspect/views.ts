/**
 * What every view of inspect is: a look at the store that can then be drawn for any moment and width, as text, as JSON
 * or as TSV. Looking and drawing are apart so that a watch can tell whether anything but the time has changed. Here are
 * the overview and the pages of jobs; lists.ts has the rest.
 */

import { jobPages, LogEnds } from "../../lookup/job_pages.ts";
import { overviewNow } from "../../lookup/overview.ts";
import type { Store } from "../../store/store.ts";
import { jobText } from "../../view/job.ts";
import { jobDetailJson, overviewJson } from "../../view/json.ts";
import { overviewText } from "../../view/overview.ts";
import type { Screen } from "../../view/style.ts";

export interface Seen {
  text: (screen: Screen) => string;
  /** For JSON, and for TSV where `rows` is not there. */
  objects: (now_ms: number) => object[];
  rows?: (now_ms: number) => object[];
  /** Jobs that were asked for and are not there. */
  missing?: readonly number[];
}

export interface View {
  /** As the user named it, for the head of a watch. */
  title: string;
  /** Columns of the TSV; null: it has none. */
  tsv: string | null;
  /** It shows only a part of what there is: then nothing to show is an answer, and a no. */
  narrowed: boolean;
  /** In pages of bounded size, or `whole`: as one. */
  look: (store: Store, now_ms: number, whole: boolean) => AsyncIterable<Seen>;
}

export const overviewView: View = {
  title: "",
  tsv: null,
  narrowed: false,
  async *look(store, now_ms) {
    const overview = await overviewNow(store, now_ms);
    yield {
      text: (screen) => overviewText(overview, screen),
      objects: (at_ms) => [overviewJson(overview, at_ms)],
    };
  },
};

const PAGE = 50;

export function pagesView(ids: readonly number[], words: readonly string[], show_env: boolean): View {
  const ends = new LogEnds();
  return {
    title: words.join(" "),
    tsv: null,
    narrowed: false,
    async *look(store, now_ms, whole) {
      const page = whole ? ids.length : PAGE;
      for (let from = 0; from < ids.length; from += page) {
        const asked = ids.slice(from, from + page);
        const found = await jobPages(store, asked, now_ms, whole ? ends : new LogEnds());
        const at = (at_ms: number) =>
          found.flatMap((facts) => (facts === null ? [] : [{ ...facts, reason: facts.reason(at_ms), show_env }]));
        yield {
          text: (screen) =>
            at(screen.now_ms)
              .map((shown) => jobText(shown, screen))
              .join("\n"),
          objects: (at_ms) => at(at_ms).map((shown) => jobDetailJson(shown.job, shown)),
          missing: asked.filter((_, index) => found[index] === null),
        };
      }
    },
  };
}
