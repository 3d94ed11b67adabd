/** What a role has to say while it works. Who listens decides where it goes: a log, a terminal, a test. */

export type Level = "debug" | "info" | "warn" | "error";

export type Report = (level: Level, message: string) => void;
