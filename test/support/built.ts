/** What the build tells a compiled lease, for tests of what it would not do without that. */

import { schemaOf } from "../../src/store/sqlite/exact_schema.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/quick_enqueue.ts";

export function asIfBuilt(): void {
  Object.assign(globalThis, { LEASE_SCHEMA: schemaOf(SCHEMA_VERSION) });
}
