/** Limits: what is in use of them, and setting them. A queue is a limit by its own name. */

import { useState } from "preact/hooks";
import { useMayChange } from "./about.ts";
import { countText } from "./format.ts";
import { Ago, Button, Dialog, Empty, FormButtons, Section, Waiting } from "./parts.tsx";
import { attempt, Refusal, send } from "./requests.ts";
import type { LimitBody } from "./types.ts";

/** What is to be set; a name that is given can't be changed. */
export type LimitDraft = Pick<LimitBody, "name" | "limit" | "rate">;

function boundOf(text: string): number | null {
  if (text.trim() === "") return null;
  if (!/^\d+$/.test(text.trim())) throw new Refusal("a limit is a whole number, or nothing");
  return Number(text);
}

export function LimitForm({ draft, close }: { draft: LimitDraft; close: () => void }) {
  const [name, setName] = useState(draft.name);
  const [limit, setLimit] = useState(draft.limit === null ? "" : String(draft.limit));
  const [rate, setRate] = useState(draft.rate ?? "");
  const set = async () => {
    const done = await attempt(async () => {
      const bounds = { limit: boundOf(limit), rate: rate.trim() === "" ? null : rate.trim() };
      await send("/limits", { name: name.trim(), ...bounds });
      return bounds.limit === null && bounds.rate === null ? `${name} is not limited any more` : `limit ${name} is set`;
    });
    if (done) close();
  };
  return (
    <Dialog title={draft.name === "" ? "New limit" : `Limit ${draft.name}`} close={close}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void set();
        }}
      >
        {draft.name === "" ? (
          <label class="whole">
            Name, or that of a queue
            <input value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
        ) : null}
        <label class="whole">
          Jobs at a time
          <input value={limit} placeholder="no bound" onInput={(event) => setLimit(event.currentTarget.value)} />
        </label>
        <label class="whole">
          Starts per time
          <input value={rate} placeholder="no bound; 10/1m" onInput={(event) => setRate(event.currentTarget.value)} />
        </label>
        <FormButtons submit="Set" close={close} />
      </form>
    </Dialog>
  );
}

function LimitRow({ row, change }: { row: LimitBody; change: (draft: LimitDraft) => void }) {
  const full = row.limit !== null && row.running >= row.limit;
  return (
    <tr data-row>
      <td>{row.name}</td>
      <td class={`right ${full ? "tone-retrying" : ""}`}>
        {row.limit === null ? row.running : `${row.running} of ${row.limit}`}
      </td>
      <td class="right wide-only">{row.rate === null ? "" : `${row.started} of ${row.rate}`}</td>
      <td class="right">{countText(row.waiting)}</td>
      <td class="right wide-only muted">
        <Ago at={row.next_start_at} />
      </td>
      <td class="right">
        {useMayChange() ? (
          <Button act={() => change(row)} label={`change limit ${row.name}`}>
            Change
          </Button>
        ) : null}
      </td>
    </tr>
  );
}

const NEW: LimitDraft = { name: "", limit: null, rate: null };

export function Limits({
  limits,
  error,
  change,
}: {
  limits: readonly LimitBody[] | null;
  error: string | null;
  change: (draft: LimitDraft) => void;
}) {
  const more = useMayChange() ? (
    <Button tone="quiet" act={() => change(NEW)}>
      New limit
    </Button>
  ) : null;
  return (
    <Section title="Limits" more={more}>
      {limits === null ? (
        <Waiting error={error} />
      ) : limits.length === 0 ? (
        <Empty>
          None: as many run as workers have slots. Bound some: <code>lease limit mail 5</code>
        </Empty>
      ) : (
        <table>
          <thead>
            <tr>
              <th>Limit</th>
              <th class="right">Running</th>
              <th class="right wide-only">Started</th>
              <th class="right">Waiting</th>
              <th class="right wide-only">Next start</th>
              <th>
                <span class="sr">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {limits.map((row) => (
              <LimitRow key={row.name} row={row} change={change} />
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}
