// The C interface.
#include "Entries.h"
#include "Python.h"
#include "TableImpl.h"

#include <algorithm>
#include <cstdio>

using namespace altgrad::core;

static thread_local char lastWords[8192];

const char *altgrad::core::lastError() { return lastWords; }

void altgrad::core::keepError(const char *words) noexcept { snprintf(lastWords, sizeof lastWords, "%s", words); }

altgrad_core_python &altgrad::core::python() {
  static altgrad_core_python known{};
  return known;
}

altgrad_core_objects &altgrad::core::objects() {
  static altgrad_core_objects known{-1, 0, -1, 0, -1, 0, nullptr, -1};
  return known;
}

static Table &of(altgrad_table *table) { return *reinterpret_cast<Table *>(table); }
static const Table &of(const altgrad_table *table) { return *reinterpret_cast<const Table *>(table); }

const char *altgrad_core_error(void) { return lastError(); }

const void *altgrad_core_runtime(void) { return reinterpret_cast<const void *>(&altgrad_version); }

altgrad_status altgrad_table_create(altgrad_bundle *bundle, altgrad_plan *plan, const altgrad_core_row *rows,
                                    int64_t count, int64_t groups, altgrad_table **out) {
  return guarded([&] { *out = reinterpret_cast<altgrad_table *>(new Table(bundle, plan, rows, count, groups)); });
}

void altgrad_table_free(altgrad_table *table) { delete reinterpret_cast<Table *>(table); }

altgrad_status altgrad_table_use(altgrad_table *table, void *workspace, uint64_t bytes, int32_t host) {
  return guarded([&] { of(table).use(workspace, bytes, host); });
}

altgrad_status altgrad_core_use_products(altgrad_table *table) {
  return guarded([&] { of(table).factorizeByProducts(); });
}

const altgrad_tensor *altgrad_table_declared(const altgrad_table *table) { return of(table).declared(); }

void altgrad_table_watch(altgrad_table *table, const AtenTensorHandle *params, int64_t count) {
  guarded([&] { of(table).watch(params, count); });
}

altgrad_status altgrad_table_validate(altgrad_table *table, const AtenTensorHandle *given, int32_t trusted,
                                      int32_t *found) {
  return guarded([&] { *found = of(table).validate(given, trusted); });
}

const uint8_t *altgrad_table_present(const altgrad_table *table) { return of(table).present(); }

altgrad_status altgrad_table_run(altgrad_table *table, int64_t last, void *stream) {
  return guarded([&] { of(table).run(last, stream); });
}

int64_t altgrad_core_hook_bytes(void) { return ALTGRAD_HOOK_BYTES; }

int64_t altgrad_core_chunk(void) { return ALTGRAD_CHUNK; }

int64_t altgrad_core_blocked_numel(void) { return ALTGRAD_BLOCKED_NUMEL; }

int64_t altgrad_table_rows_from(const altgrad_table *table) { return of(table).rowsFrom(); }

altgrad_status altgrad_table_run_rows(altgrad_table *table, int64_t first, int64_t last, void *stream) {
  return guarded([&] { of(table).runRows(first, last, stream); });
}

const char *altgrad_table_unsummed(const altgrad_table *table) { return of(table).unsummed(); }

altgrad_status altgrad_table_sum(altgrad_table *table, int64_t row, AtenTensorHandle grad) {
  return guarded([&] { of(table).sum(row, grad); });
}

void altgrad_table_counts(const altgrad_table *table, int64_t counts[2]) { of(table).count(counts); }

void altgrad_core_set_python(const altgrad_core_python *given) { python() = *given; }

void altgrad_core_set_objects(altgrad_core_objects *given) {
  static const int64_t dims = guarded<int64_t>(-1, [] { return dimsInWords(); });
  given->dims = std::min(given->dims, dims);
  objects() = *given;
}

int32_t altgrad_core_same_lists(void *lists, const int64_t *lengths, int64_t count, void *const *items) {
  for (intptr_t i = 0; i < count; ++i) {
    void *list = python().item(lists, i);
    for (intptr_t j = 0; j < lengths[i]; ++j)
      if (python().item(list, j) != *items++)
        return 0;
  }
  return 1;
}

altgrad_status altgrad_core_entries_create(void *state, void *const *inner, int64_t count, altgrad_core_entries **out) {
  return guarded([&] { *out = reinterpret_cast<altgrad_core_entries *>(new Entries(state, inner, count)); });
}

void altgrad_core_entries_free(altgrad_core_entries *entries) { delete reinterpret_cast<Entries *>(entries); }

int32_t altgrad_core_entries_same(const altgrad_core_entries *entries, void *state) {
  return guarded<int32_t>(0, [&] { return reinterpret_cast<const Entries *>(entries)->areSame(state); });
}
