// Rules of the scripts: small functions, one thought a line. Names and types are checked by tsc.
import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    files: ["static/js/**/*.js", "tests/js/**/*.js"],
    rules: {
      "no-undef": "off", // tsc knows the names that browsers have
      complexity: ["error", 10],
      "max-depth": ["error", 4],
      "max-lines-per-function": ["error", { max: 50, skipComments: true, skipBlankLines: true }],
      "max-nested-callbacks": ["error", 4],
      "max-params": ["error", 4],
      "no-nested-ternary": "error",
      "no-shadow": "error",
      "no-unused-vars": "error",
      "prefer-const": "error",
    },
  },
];
