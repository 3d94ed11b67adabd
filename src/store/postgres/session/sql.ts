/** Statements with the schema of one store in them. */

import type { SqlRow } from "../../../platform/platform.ts";
import type { StatementName } from "../statements.ts";
import { SQL } from "../statements.ts";
import type { Connection, Param } from "./link.ts";

export class Statements {
  readonly #prefix: string;
  readonly #texts = new Map<string, string>();

  constructor(schema: string) {
    this.#prefix = `"${schema.replaceAll('"', '""')}".`;
  }

  run(connection: Connection, name: StatementName, params: readonly Param[] = []): Promise<SqlRow[]> {
    return connection.query(this.text(SQL[name]), params);
  }

  /** A statement that is not one of the hot ones, or that was put together at run time. */
  sql(connection: Connection, text: string, params: readonly Param[] = []): Promise<SqlRow[]> {
    return connection.query(this.text(text), params);
  }

  text(template: string): string {
    let text = this.#texts.get(template);
    if (text === undefined) {
      text = template.replaceAll(/\blease\./g, this.#prefix);
      this.#texts.set(template, text);
    }
    return text;
  }
}
