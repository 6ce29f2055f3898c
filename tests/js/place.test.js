import assert from "node:assert/strict";
import { test } from "node:test";
import { hrefOf, placeText, readPlace } from "../../static/js/shared/place.js";

const FOLDER = "/home/me/run/steps/44.html";
const FILE = "/home/me/我的 run.html";
const HASH = "#r=1&token=31";
const about = { where: "rank_0.jsonl.gz:530", title: "Prompts · run" };

/** Returns where a text leads in a report folder and in one file. @param {string} text */
function leadsTo(text) {
  const place = readPlace(text);
  return place && place.page !== null ? [hrefOf(place, false), hrefOf(place, true)] : place;
}

const RESPONSE = ["steps/44.html#r=1&token=31", "#/steps/44?r=1&token=31"];

test("a place is words, its place in the log, and its file with the state", () => {
  const line = "step 44, response 1, token 31 · rank_0.jsonl.gz:530 · steps/44.html#r=1&token=31";
  assert.equal(placeText(FOLDER, HASH, about), line);
  const ofRun = placeText("/run/responses.html", "#sort=step&r=44-1", { ...about, where: "" });
  assert.equal(ofRun, "step 44, response 1 · responses.html#sort=step&r=44-1");
  const other = placeText("/run/prompts.html", "#p=3", { ...about, where: "" });
  assert.equal(other, "Prompts · run · prompts.html#p=3");
});

test("a copied text leads there, from a folder and one file, to a folder and one file", () => {
  assert.deepEqual(leadsTo(placeText(FOLDER, HASH, about)), RESPONSE);
  assert.deepEqual(leadsTo(placeText(FILE, "#/steps/44?r=1&token=31", about)), RESPONSE);
  const search = placeText(FILE, "#/responses?q=%E5%AE%B6+%23&sort=reward", about);
  assert.deepEqual(leadsTo(search), [
    "responses.html#q=%E5%AE%B6+%23&sort=reward",
    "#/responses?q=%E5%AE%B6+%23&sort=reward",
  ]);
  assert.deepEqual(leadsTo("C:\\run\\steps\\44.html#r=1&token=31"), RESPONSE);
  assert.deepEqual(leadsTo("https://host/run/steps/44.html#r=1&token=31"), RESPONSE);
});

test("words, numbers and the end of an address lead there, too", () => {
  for (const text of [
    "step 44, response 1, token 31",
    "Look at Step 44 response 1, token 31!",
    "44/1/31",
    " 44, 1, 31 ",
    "step 44, response 1, token 31 · rank_0.jsonl.gz:530 · #r=1&token=31",
    "(see step 44 · #r=1&token=31).",
  ])
    assert.deepEqual(leadsTo(text), RESPONSE, text);
  assert.deepEqual(leadsTo("44"), ["steps/44.html", "#/steps/44"]);
  assert.deepEqual(leadsTo("index.html"), ["index.html", "#/"]);
});

test("a step may be negative, with a hyphen or a minus sign", () => {
  const there = ["steps/-5.html#r=1", "#/steps/-5?r=1"];
  for (const text of ["step -5, response 1", "Step −5 response 1.", "-5/1", "−5, 1", "-5-1"])
    assert.deepEqual(leadsTo(text), there, text);
  assert.deepEqual(leadsTo("-5"), ["steps/-5.html", "#/steps/-5"]);
  const copied = placeText("/run/steps/-5.html", "#r=1", { ...about, where: "" });
  assert.equal(copied, "step -5, response 1 · steps/-5.html#r=1");
  assert.deepEqual(leadsTo(copied), there);
  assert.equal(readPlace("step-5"), null);
});

test("a state without a page and without words keeps the page", () => {
  const place = readPlace("#r=1&token=31");
  assert.equal(place?.page, null);
  assert.equal(place?.params.get("token"), "31");
});

test("what names no place leads nowhere", () => {
  for (const text of ["", "hello", "# heading", "#", "response 3", "2026/11/x", "javascript:1"])
    assert.equal(readPlace(text), null, text);
});
