/** Finished per minute, as bars: what completed, and on top of it what failed. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { countText } from "./format.ts";
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
  const bars = uPlot.paths.bars?.({ size: [0.8, 14, 1] });
  const paths = bars === undefined ? {} : { paths: bars };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 0, 0, 0],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(4, most * 1.1)] } },
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

const clock = (seconds: number) => new Date(seconds * 1_000).toTimeString().slice(0, 5);
const whole = (count: number) => (Number.isInteger(count) ? countText(count) : "");

export function HistoryChart({ points }: { points: readonly HistoryBody[] }) {
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
      <div ref={place} role="img" aria-label={`In the last hour ${done} completed and ${failed} failed`} />
      <figcaption>
        <span class="key is-completed">{countText(done)} completed</span>
        <span class="key is-failed">{countText(failed)} failed</span>
      </figcaption>
    </figure>
  );
}
