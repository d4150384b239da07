// What front ends ask of a bundle's manifest.
#include "Status.h"
#include "altgrad/format.h"
#include "bundle/Bundle.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::runtime;

namespace {

const Manifest *manifestOf(const altgrad_bundle *bundle) { return bundle ? &bundle->shared->manifest() : nullptr; }

template <typename Entry> int64_t countOf(const altgrad_bundle *bundle, std::vector<Entry> Manifest::*list) {
  return bundle ? int64_t((manifestOf(bundle)->*list).size()) : 0;
}

altgrad_status checkIndex(const char *function, const char *what, int64_t index, size_t count) {
  if (index < 0 || index >= int64_t(count))
    return fail(ALTGRAD_INVALID, "%s: %s %lld, there are %lld", function, what, (long long)index, (long long)count);
  return ALTGRAD_OK;
}

template <typename Info>
altgrad_status checkArguments(const char *function, const altgrad_bundle *bundle, const Info *out) {
  if (!bundle || !out)
    return fail(ALTGRAD_INVALID, "%s: %s is NULL", function, bundle ? "out" : "bundle");
  if (out->size < sizeof out->size)
    return fail(ALTGRAD_INVALID, "%s: out->size is %llu, not the size of the struct", function,
                (unsigned long long)out->size);
  return ALTGRAD_OK;
}

// An older caller's struct is shorter, a newer one's longer: the members that
// both know are filled.
template <typename Info> altgrad_status give(Info info, Info *out) {
  info.size = out->size;
  memcpy(out, &info, std::min<uint64_t>(out->size, sizeof info));
  return ALTGRAD_OK;
}

// What the functions that end in _at share.
template <typename Entry, typename Info>
altgrad_status find(const char *function, const char *what, const altgrad_bundle *bundle,
                    std::vector<Entry> Manifest::*list, int64_t index, const Info *out, const Entry *&found) {
  if (altgrad_status status = checkArguments(function, bundle, out))
    return status;
  const std::vector<Entry> &entries = manifestOf(bundle)->*list;
  if (altgrad_status status = checkIndex(function, what, index, entries.size()))
    return status;
  found = &entries[size_t(index)];
  return ALTGRAD_OK;
}

} // namespace

int32_t altgrad_format_bits(const char *name) {
  for (const altgrad::Preset &preset : altgrad::presets)
    if (name && strcmp(preset.name, name) == 0)
      return int32_t(preset.format.bits());
  return 0;
}

int32_t altgrad_format_even(const char *name) {
  for (const altgrad::Preset &preset : altgrad::presets)
    if (name && strcmp(preset.name, name) == 0 && preset.format.canPack())
      return preset.format.evenIsHigh() ? ALTGRAD_EVEN_HIGH : ALTGRAD_EVEN_LOW;
  return ALTGRAD_UNPACKED;
}

const char *altgrad_scaled_preset(const char *name) {
  for (const altgrad::ScaledPreset &preset : altgrad::scaledPresets)
    if (name && strcmp(preset.name, name) == 0)
      return preset.meaning;
  return nullptr;
}

int32_t altgrad_has_units(const altgrad_bundle *bundle) {
  for (int64_t set = 0; bundle && set < manifestOf(bundle)->sets; ++set)
    if (manifestOf(bundle)->units[size_t(set)] == UnitKind::Given)
      return 1;
  return 0;
}

int64_t altgrad_unit_multiple(const altgrad_bundle *bundle, int64_t set) {
  if (!bundle || set < 0 || set >= manifestOf(bundle)->sets)
    return 0;
  return manifestOf(bundle)->units[size_t(set)] == UnitKind::Given ? manifestOf(bundle)->unitMultiple(set) : 0;
}

int64_t altgrad_row_multiple(const altgrad_bundle *bundle, int64_t set) {
  return bundle ? manifestOf(bundle)->rowMultiple(set) : 1;
}

int32_t altgrad_has_places(const altgrad_bundle *bundle, int64_t set) {
  return bundle && set >= 0 && set < int64_t(manifestOf(bundle)->places.size()) &&
         manifestOf(bundle)->places[size_t(set)];
}

int32_t altgrad_multiplies(const altgrad_bundle *bundle, int64_t set) {
  if (!bundle || set < 0 || set >= manifestOf(bundle)->sets)
    return 0;
  const Manifest &manifest = *manifestOf(bundle);
  if (!manifest.matrixPhase(set))
    return 0;
  return manifest.units[size_t(set)] == UnitKind::Matrices ? 2 : manifest.areTall(set) ? 3 : 1;
}

int32_t altgrad_has_columns(const altgrad_bundle *bundle, int64_t set) {
  return bundle && set >= 0 && set < int64_t(manifestOf(bundle)->units.size()) &&
         manifestOf(bundle)->units[size_t(set)] == UnitKind::Rows;
}

int64_t altgrad_set_count(const altgrad_bundle *bundle) {
  if (!bundle || manifestOf(bundle)->streams.empty())
    return 0;
  return manifestOf(bundle)->sets;
}

int64_t altgrad_stream_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::streams); }

int64_t altgrad_scalar_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::scalars); }

int64_t altgrad_phase_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::phases); }

int64_t altgrad_exchange_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::exchanges); }

int64_t altgrad_partial_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::partials); }

int64_t altgrad_warning_count(const altgrad_bundle *bundle) { return countOf(bundle, &Manifest::warnings); }

altgrad_status altgrad_stream_at(const altgrad_bundle *bundle, int64_t index, altgrad_stream_info *out) {
  const Stream *stream;
  if (altgrad_status status = find("altgrad_stream_at", "stream", bundle, &Manifest::streams, index, out, stream))
    return status;
  return give({0, stream->name.c_str(), stream->key.c_str(), stream->format.c_str(), stream->role, stream->access,
               int32_t(stream->set), int32_t(stream->bits), int32_t(stream->block), stream->even,
               int32_t(stream->columns), stream->perColumn, int32_t(stream->square)},
              out);
}

altgrad_status altgrad_scalar_at(const altgrad_bundle *bundle, int64_t index, altgrad_scalar_info *out) {
  const Scalar *scalar;
  if (altgrad_status status = find("altgrad_scalar_at", "scalar", bundle, &Manifest::scalars, index, out, scalar))
    return status;
  return give({0, scalar->name.c_str(), scalar->key.c_str(), scalar->role, scalar->access, scalar->type, scalar->scope,
               int32_t(scalar->set), int32_t(scalar->bytes), scalar->hasDefault, scalar->value},
              out);
}

altgrad_status altgrad_phase_at(const altgrad_bundle *bundle, int64_t index, altgrad_phase_info *out) {
  const Phase *phase;
  if (altgrad_status status = find("altgrad_phase_at", "phase", bundle, &Manifest::phases, index, out, phase))
    return status;
  return give({0, phase->name.c_str(), phase->kind, int32_t(phase->set), phase->read, phase->written,
               phase->domain == Domain::Once, 0},
              out);
}

altgrad_status altgrad_exchange_at(const altgrad_bundle *bundle, int64_t index, altgrad_exchange_info *out) {
  const Exchange *exchange;
  if (altgrad_status status =
          find("altgrad_exchange_at", "exchange", bundle, &Manifest::exchanges, index, out, exchange))
    return status;
  return give({0, exchange->phase, int64_t(exchange->words.size())}, out);
}

altgrad_status altgrad_partial_info_at(const altgrad_bundle *bundle, int64_t index, altgrad_partial_info *out) {
  const SliceSum *sum;
  if (altgrad_status status = find("altgrad_partial_info_at", "partial", bundle, &Manifest::partials, index, out, sum))
    return status;
  return give({0, sum->phase, sum->set, sum->reduction}, out);
}

altgrad_status altgrad_warning_at(const altgrad_bundle *bundle, int64_t index, altgrad_warning_info *out) {
  const Limit *warning;
  if (altgrad_status status = find("altgrad_warning_at", "warning", bundle, &Manifest::warnings, index, out, warning))
    return status;
  return give({0, warning->stream.c_str(), warning->hyper.c_str(), warning->text.c_str(), warning->above,
               warning->below, int32_t(warning->set)},
              out);
}

altgrad_status altgrad_exchange_word_at(const altgrad_bundle *bundle, int64_t exchange, int64_t word,
                                        altgrad_exchange_word *out) {
  const char *function = "altgrad_exchange_word_at";
  const Exchange *found;
  if (altgrad_status status = find(function, "exchange", bundle, &Manifest::exchanges, exchange, out, found))
    return status;
  if (altgrad_status status = checkIndex(function, "word", word, found->words.size()))
    return status;
  const Exchange::Word &entry = found->words[size_t(word)];
  // The words of the step come first in a workspace.
  return give({0, uint64_t(entry.word) * sizeof(uint64_t), entry.reduction, entry.sum.c_str()}, out);
}
