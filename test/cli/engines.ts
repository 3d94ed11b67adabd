/** The same test on both engines: a place whose store is a file, and one whose store is a schema of PostgreSQL. */

import { afterAll, describe } from "bun:test";
import { newSchema, type Schema } from "../support/postgres.ts";
import { Place, usePlaces } from "./lease.ts";

export class PostgresPlace extends Place {
  readonly schema: Schema;

  constructor(folder: string, schema: Schema) {
    super(folder);
    this.schema = schema;
  }

  override get env(): Record<string, string> {
    return { ...super.env, LEASE_STORE: this.schema.url };
  }
}

/** To be called once at the top of a test file. */
export function usePostgresPlaces(newPlace = usePlaces()): () => Promise<PostgresPlace> {
  const schemas: Schema[] = [];
  afterAll(async () => {
    for (const schema of schemas) await schema.drop();
  });
  return async () => {
    const schema = await newSchema();
    schemas.push(schema);
    return new PostgresPlace(newPlace().folder, schema);
  };
}

/** Describes the same for each engine; to be called once at the top of a test file. */
export function onEachEngine(title: string, body: (place: () => Promise<Place>) => void): void {
  const newPlace = usePlaces();
  const newPostgresPlace = usePostgresPlaces(newPlace);
  describe(`${title}, on SQLite`, () => body(async () => newPlace()));
  describe(`${title}, on PostgreSQL`, () => body(newPostgresPlace));
}
