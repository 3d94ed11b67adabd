/**
 * Who may ask. Nothing is answered to another host name (a page elsewhere whose name was made to point here), nothing to
 * another site's page, no change to anything but our own pages; beyond this machine only to those who know the token.
 * And what a page may do that we sent: nothing but what came from here.
 */

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { getCookie, setCookie } from "hono/cookie";
import { createMiddleware } from "hono/factory";
import type { Context } from "hono";

export interface Guarded {
  /** Host names by which we are asked, in lower case, without port. */
  names: readonly string[];
  /** Null: this machine alone can ask, and needs none. */
  token: string | null;
}

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
};

const TOKEN_BYTES = 24;
const COOKIE = "lease_ui";

export function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString("base64url");
}

/** In the same time wherever they differ, and whatever their lengths. */
export function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

/** `localhost:8080` → `localhost`, `[::1]:8080` → `::1`. */
export function hostName(header: string): string {
  const name = header.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
  return name.startsWith("[") ? name.slice(1, -1) : name;
}

/** An address can't be made to point elsewhere, as a name can. */
export function isAddress(name: string): boolean {
  return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(name) || name.includes(":");
}

export const refuse = (c: Context, status: 400 | 401 | 403 | 404 | 409 | 413 | 421 | 503, error: string) =>
  c.json({ error }, status);

export class Guard {
  readonly #names: ReadonlySet<string>;
  readonly #token: string | null;
  /** What the cookie holds instead of the token; of this run alone. */
  readonly #session = newToken();

  constructor({ names, token }: Guarded) {
    this.#names = new Set(names);
    this.#token = token;
  }

  /** For everything: the name we are called by, and the headers that bind a page. */
  readonly everywhere = createMiddleware(async (c, next) => {
    const name = hostName(c.req.header("host") ?? "");
    if (!this.#names.has(name) && !(this.#token !== null && isAddress(name))) {
      return refuse(c, 421, `not known as ${JSON.stringify(name)} here: start lease ui with --allow-host for it`);
    }
    for (const [header, value] of Object.entries(SECURITY_HEADERS)) c.header(header, value);
    await next();
    return undefined;
  });

  /** For everything that tells of jobs. */
  readonly readers = createMiddleware(async (c, next) => {
    const site = c.req.header("sec-fetch-site") ?? "none";
    if (site !== "same-origin" && site !== "none") return refuse(c, 403, "this is for the pages of lease ui alone");
    if (!this.#isKnown(c)) return refuse(c, 401, "say the token that lease ui printed when it started");
    c.header("cache-control", "no-store");
    await next();
    return undefined;
  });

  /** For everything that changes something; behind `readers`. */
  readonly writers = createMiddleware(async (c, next) => {
    if (!this.#hasToken(c) && !isOwnPage(c)) return refuse(c, 403, "only the pages of lease ui may change something");
    if (!(c.req.header("content-type") ?? "").startsWith("application/json")) return refuse(c, 400, "send JSON");
    await next();
    return undefined;
  });

  /** Answers whether the token was right; then the tab's browser has a cookie. */
  login(c: Context, token: string): boolean {
    if (this.#token === null) return true;
    if (!isOwnPage(c) || !isSame(token, this.#token)) return false;
    const secure = (c.req.header("origin") ?? "").startsWith("https:");
    setCookie(c, COOKIE, this.#session, { httpOnly: true, sameSite: "Strict", path: "/", secure });
    return true;
  }

  #isKnown(c: Context): boolean {
    if (this.#token === null || this.#hasToken(c)) return true;
    return isSame(getCookie(c, COOKIE) ?? "", this.#session);
  }

  #hasToken(c: Context): boolean {
    const [, given = ""] = /^Bearer (.+)$/.exec(c.req.header("authorization") ?? "") ?? [];
    return this.#token !== null && isSame(given, this.#token);
  }
}

/** A browser says where a request comes from, and no page can make it say something else. */
function isOwnPage(c: Context): boolean {
  const site = c.req.header("sec-fetch-site") ?? "same-origin";
  const origin = c.req.header("origin") ?? "";
  const host = c.req.header("host") ?? "";
  return site === "same-origin" && (origin === `http://${host}` || origin === `https://${host}`);
}
