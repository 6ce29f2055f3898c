/** Loads classic scripts with data, which pages opened from disk may not fetch. */

/** @param {string} src @returns {Promise<void>} rejects if the file is missing */
export function runScript(src) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = src;
    script.addEventListener("load", () => {
      script.remove();
      resolve();
    });
    script.addEventListener("error", () => {
      script.remove();
      reject(new Error(`${src} could not be loaded`));
    });
    document.head.append(script);
  });
}
