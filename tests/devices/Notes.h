// What the device of these tests writes down of what it is asked.
#ifndef ALTGRAD_TESTS_NOTES_H
#define ALTGRAD_TESTS_NOTES_H

#include <c10/core/Stream.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace {

thread_local bool inFallback = false; // its copies are no user's

std::mutex lock;
std::vector<std::string> written; // what was asked, in order
std::vector<c10::StreamId> named; // the streams that are in it

void note(std::string what) {
  if (inFallback)
    return;
  std::lock_guard<std::mutex> held(lock);
  written.push_back(std::move(what));
}

// 0 for the default stream; others are counted as they come in the notes.
std::string nameOf(c10::StreamId stream) {
  std::lock_guard<std::mutex> held(lock);
  if (inFallback)
    return "";
  auto at = std::find(named.begin(), named.end(), stream);
  if (stream && at == named.end())
    at = named.insert(at, stream);
  return " on stream " + std::to_string(stream ? at - named.begin() + 1 : 0);
}

} // namespace

#endif // ALTGRAD_TESTS_NOTES_H
