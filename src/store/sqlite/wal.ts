/** How long the WAL may get. */

/** It is cut back to this after a checkpoint. */
export const WAL_LIMIT_BYTES = 64 * 1024 * 1024;
/** A process that ends leaves so much of it to the next one, for whom a longer one would be slow to read. */
export const SHORT_WAL_BYTES = 256 * 1024;
