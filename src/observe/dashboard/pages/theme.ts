/** Light, dark, or as the system has it; remembered by the browser. */

const NAMES = ["auto", "light", "dark"] as const;
type Theme = (typeof NAMES)[number];
const KEY = "lease-theme";

export function themeName(): Theme {
  try {
    return NAMES.find((name) => name === localStorage.getItem(KEY)) ?? "auto";
  } catch {
    return "auto";
  }
}

function apply(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event("lease:theme"));
}

export function cycleTheme(): Theme {
  const theme = NAMES[(NAMES.indexOf(themeName()) + 1) % NAMES.length] ?? "auto";
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Not remembered, then.
  }
  apply(theme);
  return theme;
}

apply(themeName());
