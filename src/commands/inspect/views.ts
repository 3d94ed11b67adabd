/**
 * What every view of inspect is: a look at the store that can then be drawn for any moment and width, as text, as JSON
 * or as TSV. Looking and drawing are apart so that a watch can tell whether anything but the time has changed.
 */

import type { Store } from "../../store/store.ts";
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
