/** An address that Prometheus can scrape: GET /metrics, and nothing else. */

import { errorText } from "../../core/errors.ts";
import type { ListenAddress } from "../../core/values.ts";
import type { Listener } from "../../platform/platform.ts";
import { listen } from "../listen.ts";

const TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** `read` is asked at every scrape. An error of it is the answer, and the next scrape asks again. */
export function serveMetrics({ host, port }: ListenAddress, read: () => Promise<string>): Listener {
  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname === "/") return new Response("lease: the metrics are at /metrics\n");
    if (pathname !== "/metrics") return new Response("there is only /metrics\n", { status: 404 });
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("only GET\n", { status: 405 });
    try {
      return new Response(await read(), { headers: { "content-type": TYPE } });
    } catch (error) {
      return new Response(`${errorText(error)}\n`, { status: 500 });
    }
  };
  return listen({ host, port, body_limit_bytes: 1_024, answer });
}
