/** The client for JavaScript; see below. */
export {};
