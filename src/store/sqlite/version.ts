/** What marks a file as a store, and the schema that this lease knows: apart from the schema, which few starts need. */

export const APPLICATION_ID = 0x4c454153;
export const SCHEMA_VERSION = 3;
