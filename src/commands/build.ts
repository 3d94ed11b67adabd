/** What the build put in: the version, or that of the checkout when it runs from source. */

import manifest from "../../package.json" with { type: "json" };

export const VERSION: string = manifest.version;
