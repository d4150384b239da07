// What the words of a storage line say.
#include "StorageLine.h"
#include "Errors.h"
#include "altgrad_core.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace altgrad::core;

namespace {

constexpr Text remainders[][2] = {{"bf16+i16", "int16"}, {"bf16+i8", "int8"}};
constexpr Text ofAllRules[] = {"param", "grad", "master", "copy", "states", "step", "rungs"}; // streams
constexpr Text scaleFormats[] = {"f32", "f16", "ocp.e8m0", "ocp.e4m3fn"};

// What is too long is cut, and then is no format either.
template <size_t Size> void put(Text text, char (&out)[Size]) {
  std::copy_n(text.begin(), std::min(text.size(), Size - 1), out);
}

// A number of a word; `otherwise` where it is none.
int32_t numberOf(Text text, int32_t otherwise) {
  if (text.empty() || text.find_first_not_of("0123456789") != Text::npos)
    return otherwise;
  return int32_t(std::min<long long>(strtoll(std::string(text).c_str(), nullptr, 10), INT32_MAX));
}

bool is(Text of, Text one, Text other) { return of == one || of == other; }

// One scale for the tensor, by what it is found.
void readTensorScale(Text piece, altgrad_core_word &out) {
  const std::vector<Text> by = split(piece, ':');
  if (by[0] != "current" && !is(by[0], "delayed", "bounded"))
    return;
  out.of_tensor = 1;
  out.past = by[0] == "current" ? 0 : std::max(1, by.size() > 1 ? numberOf(by[1], 1) : 1);
}

constexpr Text minSize = "min_size";

void checkMinSize(const std::string &name, const std::string &word, Text piece) {
  const std::string says = "storage says " + name + "=" + word;
  const std::vector<Text> fields = split(piece, ':');
  if (fields.size() != 2 || numberOf(fields[1], 0) < 1)
    throw Refusal(ALTGRAD_INVALID, says + "; write min_size with the elements from which on a tensor has blocks, as "
                                          "min_size:4096");
  if (word.find(minSize) != word.rfind(minSize))
    throw Refusal(ALTGRAD_INVALID, says + ", min_size twice; leave one out");
  if (name == "copy" || name == "param" || name == "grad" || parse(word).block <= 1)
    throw Refusal(ALTGRAD_INVALID, says + "; min_size is of states with a scale for each block, as " +
                                       "m=bnb8:256,min_size:8192");
}

void checkWord(const std::string &name, const std::string &word) {
  const std::vector<Text> fields = split(split(word, ',')[0], ':');
  const std::string format(fields[0]), prefix = "storage says " + name + "=" + word;
  auto refuse = [&](const std::string &why) { throw Refusal(ALTGRAD_INVALID, prefix + why); };
  if (name == "master" && word != "f32" && !is(word, "bf16+i16", "bf16+i8"))
    refuse("; a master is f32, or bf16+i16 or bf16+i8 beside a bfloat16 parameter");
  if (format != "param" && !is(name, "master", "step") && !altgrad_format_bits(format.c_str()))
    refuse("; '" + format + "' is no format: altgrad-opt --list-formats names them");
  const bool isRun = fields.size() > 1 && !altgrad::squareSide(fields[1]);
  if (isRun && !isBlock(numberOf(fields[1], 0)))
    refuse(", with blocks of " + (fields[1].empty() ? "no" : std::string(fields[1])) +
           " elements; expected a power of two from " + std::to_string(ALTGRAD_BLOCK_LEAST) + " to " +
           std::to_string(ALTGRAD_BLOCK_MOST) + (name == "copy" ? ", or of a copy 16x16, 32x32 or 128x128" : ""));
  if (name == "copy" && !parse(word).packed && !isDtype(format))
    throw Refusal(ALTGRAD_INVALID, "storage says copy=" + format +
                                       ", for which torch has no dtype; a copy is stored in "
                                       "one of f32, bf16, f16, ocp.e4m3fn, ocp.e5m2, or in mxfp4 or nvfp4");
  if (isRun && fields.size() > 2 &&
      std::find(std::begin(scaleFormats), std::end(scaleFormats), fields[2]) == std::end(scaleFormats))
    refuse("; scales are in f32, f16 or ocp.e8m0, and of nvfp4 in ocp.e4m3fn");
  for (Text piece : split(word, ','))
    if (split(piece, ':')[0] == minSize)
      checkMinSize(name, word, piece);
}

const char *keep(std::string words) {
  static thread_local std::string kept;
  kept = std::move(words);
  return kept.c_str();
}

template <typename Rename> const char *renamed(const Words &words, const Rename &rename) {
  std::string line;
  for (const auto &[stream, word] : words)
    line += (line.empty() ? "" : " ") + rename(stream) + "=" + altgrad::inFull(word);
  return keep(line);
}

} // namespace

bool altgrad::core::isBlock(int64_t size) {
  return size >= ALTGRAD_BLOCK_LEAST && size <= ALTGRAD_BLOCK_MOST && (size & (size - 1)) == 0;
}

altgrad_core_word altgrad::core::parse(Text word) {
  altgrad_core_word out{};
  const std::vector<Text> piece = split(word, ','), fields = split(piece[0], ':');
  Text format = fields[0];
  for (const auto &[halves, rest] : remainders)
    if (word == halves)
      format = rest;
  put(format, out.format);
  put(fields.size() > 2 ? fields[2] : "f32", out.scales);
  out.dtype = altgrad_core_dtype(out.format);
  out.block = fields.size() > 1 ? numberOf(fields[1], 1) : 1;
  out.columns = fields.size() > 1 ? altgrad::squareSide(fields[1]) : 0;
  out.packed = (out.block > 1 || out.columns) && altgrad_format_even(out.format) != ALTGRAD_UNPACKED;
  out.split = word.find('+') != Text::npos;
  out.multiple = out.packed && out.columns ? ALTGRAD_BLOCK_LEAST : out.block;
  out.levels = !strcmp(out.scales, "ocp.e4m3fn");
  out.min_size = ALTGRAD_BLOCKED_NUMEL;
  for (size_t i = 1; i < piece.size(); ++i) {
    if (is(piece[i], "softsign", "sqrt") && !*out.bent)
      put(piece[i], out.bent);
    out.both |= piece[i] == "both";
    if (const std::vector<Text> from = split(piece[i], ':'); from[0] == minSize && from.size() > 1)
      out.min_size = numberOf(from[1], out.min_size);
    if (!out.levels)
      readTensorScale(piece[i], out);
  }
  out.scaled = out.block > 1 || out.columns || out.of_tensor;
  return out;
}

bool altgrad::core::isDtype(const std::string &format) {
  const char *found = altgrad_core_format(altgrad_core_dtype(format.c_str()));
  return found && found == format;
}

std::string altgrad::core::wordAt(Text word, int64_t numel) {
  const altgrad_core_word of = parse(word);
  if (of.block > 1 && numel < of.min_size)
    return "f32";
  std::string kept;
  for (Text piece : split(word, ','))
    if (split(piece, ':')[0] != minSize)
      kept += (kept.empty() ? "" : ",") + std::string(piece);
  return kept;
}

altgrad_status altgrad_core_word_of(const char *word, altgrad_core_word *out) {
  return guarded([&] { *out = parse(word); });
}

const char *altgrad_core_in_full(const char *line) {
  return guarded<const char *>(nullptr, [&] {
    std::string full;
    for (Text word : split(line, ' '))
      if (const size_t begin = word.find('=') + 1; !word.empty())
        full += (full.empty() ? "" : " ") + std::string(word.substr(0, begin)) + altgrad::inFull(word.substr(begin));
    return keep(full);
  });
}

altgrad_status altgrad_core_line_by_names(const char *line, const char *keys, const char **out) {
  return guarded([&] {
    const Words words = wordsIn(line), states = wordsIn(keys);
    *out = renamed(words, [&](const std::string &stream) {
      const bool isName = find(states, stream) ||
                          std::find(std::begin(ofAllRules), std::end(ofAllRules), stream) != std::end(ofAllRules);
      for (const auto &[state, key] : states)
        if (key == stream && !isName) {
          if (find(words, state))
            throw Refusal(ALTGRAD_INVALID,
                          "storage names state '" + key + "' twice, as '" + state + "', too; leave one out");
          return state;
        }
      return stream;
    });
  });
}

const char *altgrad_core_line_by_keys(const char *line, const char *keys) {
  return guarded<const char *>(nullptr, [&] {
    const Words states = wordsIn(keys);
    return renamed(wordsIn(line), [&](const std::string &stream) {
      const std::string *key = find(states, stream);
      return key ? *key : stream;
    });
  });
}

const char *altgrad_core_first_word(const char *word) {
  return guarded<const char *>(nullptr, [&] {
    std::string first;
    for (Text piece : split(word, ','))
      if (piece != "both" && !is(piece, "stochastic", "stochastic32"))
        first += (first.empty() ? "" : ",") +
                 std::string(is(split(piece, ':')[0], "delayed", "bounded") ? "current" : piece);
    return keep(first);
  });
}

altgrad_status altgrad_core_check_storage(const char *line) {
  return guarded([&] {
    for (const auto &[name, word] : wordsIn(line))
      checkWord(name, word);
  });
}
