/** Prepares a statement the first time it is used: one command needs only a few of them. */

import { assert } from "../../core/errors.ts";
import type { SqlDatabase, SqlStatement } from "../../platform/platform.ts";
import type { StatementName } from "./statements.ts";

export class Statements {
  readonly #database: SqlDatabase;
  readonly #texts: Readonly<Partial<Record<StatementName, string>>>;
  readonly #prepared = new Map<string, SqlStatement>();

  constructor(database: SqlDatabase, texts: Readonly<Partial<Record<StatementName, string>>>) {
    this.#database = database;
    this.#texts = texts;
  }

  get(name: StatementName): SqlStatement {
    const text = this.#texts[name];
    assert(text !== undefined, `statement ${name} is not at hand`);
    return this.sql(text);
  }

  /** For the few statements that are put together at run time. */
  sql(text: string): SqlStatement {
    let statement = this.#prepared.get(text);
    if (statement === undefined) {
      statement = this.#database.prepare(text);
      this.#prepared.set(text, statement);
    }
    return statement;
  }
}
