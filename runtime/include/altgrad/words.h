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

// The rows and columns of blocks that are squares, 128 of "128x128"; 0: no step has such blocks.
constexpr int squareSide(std::string_view block) {
  return block == "16x16" ? 16 : block == "32x32" ? 32 : block == "128x128" ? 128 : 0;
}

// "ocp.e4m3fn:32:ocp.e8m0,floor" of "mxfp8,floor", and "ocp.e4m3fn:32x32:ocp.e8m0" of "mxfp8:32x32".
inline std::string inFull(std::string_view word) {
  const std::string_view first = word.substr(0, word.find(',')), name = first.substr(0, first.find(':'));
  const std::string_view block = first.substr(std::min(first.size(), name.size() + 1));
  for (const ScaledPreset &preset : scaledPresets)
    if (name == preset.name && (first == name || block.find('x') != block.npos)) {
      std::string full = preset.meaning;
      if (const size_t begin = full.find(':') + 1; first != name)
        full.replace(begin, full.find(':', begin) - begin, block);
      return full + std::string(word.substr(first.size()));
    }
  return std::string(word);
}

} // namespace altgrad

#endif // ALTGRAD_WORDS_H
