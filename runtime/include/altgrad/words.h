// The words of a line such as "m=bf16 v=mxfp8,floor", for whoever reads a storage or knows a request again.
#ifndef ALTGRAD_WORDS_H
#define ALTGRAD_WORDS_H

#include "altgrad/format.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace altgrad {

inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

// (stream, what is said of it), in the order of the line; "" of what has no '='.
using Words = std::vector<std::pair<std::string, std::string>>;
inline Words wordsIn(std::string_view line) {
  Words words;
  for (std::string_view word : split(line, ' ')) {
    const size_t equals = std::min(word.find('='), word.size());
    if (!word.empty())
      words.emplace_back(word.substr(0, equals), word.substr(std::min(equals + 1, word.size())));
  }
  return words;
}

// What is said of a stream; null where nothing is.
inline const std::string *find(const Words &words, std::string_view name) {
  for (const auto &[stream, word] : words)
    if (stream == name)
      return &word;
  return nullptr;
}

// "ocp.e4m3fn:32:ocp.e8m0,floor" of "mxfp8,floor".
inline std::string inFull(std::string_view word) {
  const std::string_view name = word.substr(0, word.find(','));
  for (const ScaledPreset &preset : scaledPresets)
    if (name == preset.name)
      return preset.meaning + std::string(word.substr(name.size()));
  return std::string(word);
}

} // namespace altgrad

#endif // ALTGRAD_WORDS_H
