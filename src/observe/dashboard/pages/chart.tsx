/** What finished, as bars over time: what completed, and on top of it what failed. */

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { countText } from "./format.ts";
import { useLive } from "./live_client.ts";
import { Section } from "./parts.tsx";
import type { HistoryBody } from "./types.ts";

const HEIGHT = 150;

function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Stacked: the second row is drawn first, from the ground to the sum. */
function rowsOf(points: readonly HistoryBody[]): uPlot.AlignedData {
  return [
    points.map(({ at }) => Date.parse(at) / 1_000),
    points.map(({ completed, failed }) => completed + failed),
    points.map(({ completed }) => completed),
  ];
}

function optionsOf(width: number): uPlot.Options {
  const axis = { stroke: colorOf("--muted"), font: "11px system-ui", ticks: { show: false }, gap: 4 };
  const bars = uPlot.paths.bars?.({ size: [0.75, 14, 2] });
  const paths = bars === undefined ? {} : { paths: bars };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 20, 0, 0],
    scales: { x: { range: roomy }, y: { range: (_plot, _least, most) => [0, Math.max(4, most * 1.1)] } },
    axes: [
      { ...axis, size: 22, grid: { show: false }, space: 64, values: (_plot, seconds) => seconds.map(clock) },
      {
        ...axis,
        size: 36,
        grid: { stroke: colorOf("--line"), width: 1 },
        space: 36,
        values: (_plot, counts) => counts.map(whole),
      },
    ],
    series: [
      {},
      { fill: colorOf("--failed"), points: { show: false }, ...paths },
      { fill: colorOf("--chart"), points: { show: false }, ...paths },
    ],
  };
}

/** Midnight is told by its day. */
function clock(seconds: number): string {
  const text = new Date(seconds * 1_000).toTimeString().slice(0, 5);
  return text === "00:00" ? new Date(seconds * 1_000).toLocaleDateString("en", { weekday: "short" }) : text;
}
/** Half a bar more on both sides, so that the first and the last are whole. */
function roomy(plot: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax {
  const [first = 0, second = 60] = plot.data[0];
  const half = (second - first) * 0.6;
  return [(least ?? 0) - half, (most ?? 0) + half];
}

const whole = (count: number) => (Number.isInteger(count) ? countText(count) : "");

function HistoryChart({ points }: { points: readonly HistoryBody[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const make = () => {
      const element = place.current;
      if (element === null) return;
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element.clientWidth), rowsOf(points), element);
    };
    make();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const resized = new ResizeObserver(() => {
      if (place.current !== null) plot.current?.setSize({ width: place.current.clientWidth, height: HEIGHT });
    });
    if (place.current !== null) resized.observe(place.current);
    dark.addEventListener("change", make);
    window.addEventListener("lease:theme", make);
    return () => {
      dark.removeEventListener("change", make);
      window.removeEventListener("lease:theme", make);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(rowsOf(points)), [points]);
  const [done, failed] = [points.reduce((n, p) => n + p.completed, 0), points.reduce((n, p) => n + p.failed, 0)];
  return (
    <figure class="chart">
      <div ref={place} role="img" aria-label={`${done} completed and ${failed} failed`} />
      <figcaption>
        <span class="key is-completed">{countText(done)} completed</span>
        <span class="key is-failed">{countText(failed)} failed</span>
      </figcaption>
    </figure>
  );
}

const RANGES = { hour: "Finished per minute", day: "Finished per 15 minutes", week: "Finished per 2 hours" } as const;
type Range = keyof typeof RANGES;

/** The last hour, which is known anyway, or further back. */
export function Past({ hour }: { hour: readonly HistoryBody[] }) {
  const [range, setRange] = useState<Range>("hour");
  const { body } = useLive<{ history: HistoryBody[] }>(range === "hour" ? null : `/history?range=${range}`);
  const points = range === "hour" ? hour : (body?.history ?? []);
  const choices = (
    <span class="choices" role="group" aria-label="How far back">
      {(Object.keys(RANGES) as Range[]).map((name) => (
        <button key={name} type="button" class="quiet" aria-pressed={name === range} onClick={() => setRange(name)}>
          {name}
        </button>
      ))}
    </span>
  );
  return (
    <Section title={RANGES[range]} more={choices}>
      <HistoryChart key={range} points={points} />
    </Section>
  );
}
