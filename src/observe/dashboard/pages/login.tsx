/** The door, where a token is needed: taken from the address that was printed, or typed. */

import { useState } from "preact/hooks";

/** Behind `#`, where it is sent to nobody; taken out of the address at once. */
export function tokenInAddress(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

export function Login({ message, enter }: { message: string; enter: (token: string) => Promise<void> }) {
  const [token, setToken] = useState("");
  return (
    <main class="login">
      <h1>lease</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void enter(token.trim());
        }}
      >
        <label>
          Token
          <input
            type="password"
            autoComplete="current-password"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="main">
          Open
        </button>
      </form>
      <p role="alert">{message}</p>
    </main>
  );
}
