// Tensors bound to one plan: what is validated before every step, and the step.
#ifndef ALTGRAD_CORE_TABLEIMPL_H
#define ALTGRAD_CORE_TABLEIMPL_H

#include "ChunkWords.h"
#include "Overlap.h"
#include "Program.h"
#include "Tensor.h"
#include "altgrad_core.h"

#include <string>
#include <vector>

namespace altgrad::core {

// How a tensor is known again: the object, its memory, dtype, sizes and
// strides.
struct Fingerprint {
  Handle handle;
  const void *object;
  const void *data;
  uint64_t own[ownWords];
  uint32_t shared; // in Table::words
  uint32_t shape;  // in Table::shapes: sizes, then strides
  int32_t dims;
  int32_t type;
};

// What the rows of one set have in common.
struct SetRows {
  std::string grad; // name of the stream
  int32_t type = 0; // of its parameters
  std::vector<altgrad_core_stream> states; // and the count of steps
  int64_t first = 0, last = 0;
  size_t firstFingerprint = 0, width = 0; // entries of `fingerprints` for a row
  int64_t sum = -1;                // the phase that reads its gradients alone, first of all
};

class Table {
public:
  Table(altgrad_bundle *bundle, altgrad_plan *plan, const altgrad_core_row *rows, int64_t count, int64_t groups);
  ~Table() { letGo(); }
  Table(const Table &) = delete;

  void factorizeByProducts() const;
  void use(void *memory, uint64_t size, bool host) { workspace = memory, bytes = size, onHost = host; }
  const altgrad_tensor *declared() const { return declared_.data(); }

  // Without memory for them the next look finds the table stale.
  void watch(const Handle *handles, int64_t count) {
    watches = false;
    idle.assign(handles, handles + count);
    watches = true;
  }
  int32_t validate(const Handle *given, bool trusted);
  bool areDisjoint();
  const uint8_t *present() const { return present_.data(); }
  int64_t rows() const { return int64_t(rows_.size()); }

  void run(int64_t last, void *stream);
  int64_t rowsFrom() const { return rowsFrom_; }
  void runRows(int64_t first, int64_t last, void *stream);
  // Null if sum() can do anything for the steps of this table.
  const char *unsummed() const;
  void sum(int64_t row, Handle grad);
  void count(int64_t counts[2]) const { counts[0] = counted[0], counts[1] = counted[1]; }

private:
  struct Row {
    int64_t numel;
    int32_t type;      // of its gradient
    uint32_t strides;  // in `shapes`: how its elements are visited
    bool isContiguous; // and whether that is the plain order
    int64_t skipped;   // bytes of the gradient before its first element
    int64_t units, columns;
    Handle dense;      // what kernels step in the place of the parameter; null: the parameter
  };
  // A master, and the version of its parameter after the last step; -1: not known.
  struct Master {
    size_t row;
    Handle param, stepped, master;
    int64_t version = -1;
  };
  // A gradient that was summed, kept so that no other object passes for it.
  struct Summed {
    Held grad;
    const void *data = nullptr;
    uint32_t version = 0;
  };
  // What one thread has found.
  struct Findings {
    const Handle *given;
    bool trusted;
    bool stale = false, odd = false, moved = false;
  };

  void readSets(const Program &program);
  void findSums(altgrad_bundle *bundle, const Program &program);
  void findRows(altgrad_bundle *bundle);
  Fingerprint fingerprintOf(Handle handle);
  void addRow(const Program &program, const altgrad_core_row &row);
  void bind(const altgrad_core_stream &stream, const SetRows &set, size_t place);
  void bindTensors(const Program &program);
  int64_t valuesOf(int64_t row, const altgrad_core_stream &state, const Fingerprint &param) const;
  bool liesAs(int64_t row, const Fingerprint &param, const Fingerprint &other) const;
  void checkStates();

  const Fingerprint &paramOf(const SetRows &set, int64_t row) const {
    return fingerprints[set.firstFingerprint + size_t(row - set.first) * set.width];
  }
  bool isSame(const Fingerprint &known) const;
  bool isUntouched(const Fingerprint &known) const;
  bool reads(int64_t row, const Fingerprint &param, Handle grad) const;
  const void *placeOf(int64_t row, Handle grad) const;
  void validateRow(const SetRows &set, int64_t row, Findings &findings);
  void validate(const SetRows &set, int64_t begin, int64_t end, Findings &findings);
  void letGo();
  void raiseVersions();
  void bindPresent();
  void bindGradients();

  const SetRows &setOf(int64_t row) const;
  void countChunks();
  ChunkWords chunkWords() const;
  bool isUntouched(const SetRows &set, int64_t row);
  void sweep(const SetRows &set, int64_t first, int64_t last);
  bool isSummed(const Summed &of, int64_t row) const;
  void runSums();
  std::vector<Handle> writes() const;
  void takeEdits(Handle param, Handle master) const;
  template <typename Visit> void visitGaps(const Visit &visit) const;
  void copyIn();
  void copyOut();
  void begin();
  void end();

  altgrad_plan *plan;
  std::vector<SetRows> sets;
  std::vector<Row> rows_;
  std::vector<altgrad_tensor> declared_;
  std::vector<Master> masters;
  bool anyCopy = false; // of a parameter with gaps
  std::vector<Fingerprint> fingerprints; // parameter, what is kept, count; row by row
  std::vector<int64_t> shapes;
  std::vector<uint64_t> words;
  std::vector<void *> counters;   // of their versions, as `fingerprints`; null: none
  std::vector<Handle> idle;       // parameters that may get a gradient
  bool watches = true;            // that these are all of them
  std::vector<Handle> now, taken; // gradients; those that are kept for the run
  std::vector<const void *> grads, apart; // those that lie apart from what is written
  std::vector<Span> written;               // in order; each ends where it or one before it does
  std::vector<uint8_t> present_, takesPart; // now, and as it was bound
  uint64_t keys = 0;                        // of a plain gradient
  bool moved = true;                        // a gradient is not where it was bound
  bool checked = false;                     // that what is kept is as the step takes it

  void *workspace = nullptr;
  uint64_t bytes = 0;
  bool onHost = true;
  int64_t nextPhase = 0;
  int64_t phases = 0, rowsFrom_ = 0;
  int64_t rowsRun = 0; // by themselves in this step

  bool hasRun = false;
  bool clips = false;
  bool inUnits = false; // rows or matrices have chunks of their own
  std::vector<Summed> summed;       // a row each, or none at all
  std::vector<int64_t> firstChunks; // of each row, and the end
  int64_t counted[2] = {0, 0};
};

// Whether steps multiply matrices.
bool multiplies(altgrad_bundle *bundle);
// Has torch multiply the plan's matrices on one of its types of devices; throws where it cannot.
void multiplyOn(int32_t device, altgrad_plan *plan);
// A new tensor on the same device. The dispatcher takes no plain numbers.
Held plusNumber(const Held &x, double number);
// And factorize them by products.
void factorizeByProducts(int32_t device, altgrad_plan *plan);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_TABLEIMPL_H
