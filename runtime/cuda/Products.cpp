// Symmetric products by a library, in strips or whole, a function for them, or a bundle's own kernels: measured once
// for each shape.
#include "cuda/Products.h"
#include "Status.h"
#include "altgrad/products.h"
#include "files/Cache.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace altgrad::runtime;

// Codes of the last matrix of a result, where zeros were, and the fastest of several runs.
struct altgrad::runtime::Try {
  std::vector<uint16_t> codes;
  float ms = HUGE_VALF;
  bool refused = false;
};

namespace {

constexpr int rounds = 5;                 // after one that warms up
constexpr int64_t mostCompared = 1 << 20; // numbers
constexpr int64_t mostTiles = 65535;      // of a grid's y and z
constexpr int64_t narrowestInStrips = 256; // a square's side: below, launches cost more than half of the work
constexpr int64_t pieceElements = 8;      // 16 bytes
// Of the largest number. What rounding leaves is far below it, and what is broken above.
constexpr double tolerance = 1.0 / (1 << 5);

// Never destroyed: the driver may be gone before.
struct Decisions {
  std::mutex lock;
  std::map<std::string, Way> ways; // by key
};
Decisions &decisions() {
  static auto *all = new Decisions;
  return *all;
}

constexpr const char *wayNames[] = {"library", "two strips", "four strips", "given", "own"};
const char *nameOf(Way way) { return wayNames[int(way)]; }

// Whole squares for words that nobody here has written.
Way wayOf(const std::vector<char> &words) {
  const std::string text(words.begin(), words.end());
  for (Way way : {Way::TwoStrips, Way::FourStrips, Way::Given, Way::Own})
    if (text.compare(0, strlen(nameOf(way)), nameOf(way)) == 0)
      return way;
  return Way::Full;
}

bool isOf16Bits(const altgrad_gemm &product) {
  return product.type == ALTGRAD_GEMM_BF16 || product.type == ALTGRAD_GEMM_F16;
}
bool isPieces(const void *address) { return uint64_t(address) % (2 * pieceElements) == 0; }
bool isPieces(int64_t elements) { return elements % pieceElements == 0; }
// Of a matrix one stride is 1.
int64_t lineOf(int64_t row, int64_t column) { return std::max(row, column); }

// Whether kernels may load 16 bytes at once of all that lies there.
bool isAligned(const altgrad_gemm &product) {
  const int64_t a = lineOf(product.a_row, product.a_column), b = lineOf(product.b_row, product.b_column);
  for (const void *address : {product.a, product.b, product.d, (const void *)product.c})
    if (!isPieces(address))
      return false;
  for (int64_t elements : {product.n, a, b, product.c_row, product.a_matrix, product.b_matrix, product.c_matrix})
    if (!isPieces(elements))
      return false;
  return true;
}

double numberOf(uint16_t code, int32_t type) {
  const int digits = type == ALTGRAD_GEMM_BF16 ? 7 : 10, exponent = (code & 0x7fff) >> digits;
  const int least = 2 - (1 << (14 - digits)), fraction = code & ((1 << digits) - 1);
  if (exponent + 1 == 1 << (15 - digits))
    return NAN;
  const int whole = exponent ? fraction + (1 << digits) : fraction;
  const double size = std::ldexp(whole, std::max(exponent, 1) - 1 + least - digits);
  return code >> 15 ? -size : size;
}

// In parts of the largest number; NAN where one is not finite.
double farthest(const Try &one, const Try &other, int32_t type) {
  double far = 0, largest = 0;
  for (size_t i = 0; i < one.codes.size(); ++i) {
    const double a = numberOf(one.codes[i], type), b = numberOf(other.codes[i], type);
    if (std::isnan(a - b))
      return NAN;
    far = std::max(far, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
  }
  return largest > 0 ? far / largest : far;
}

// Times what is given to a stream.
class Stopwatch {
public:
  Stopwatch(const Driver &driver, CudaStream stream) : driver(driver), stream(stream) {}
  Stopwatch(const Stopwatch &) = delete;
  ~Stopwatch() {
    for (Event event : events)
      if (event)
        driver.cuEventDestroy(event);
  }
  template <typename Body> altgrad_status time(Body body, float &ms) {
    Result error = 0;
    for (Event &event : events)
      if (!error && !event)
        error = driver.cuEventCreate(&event, 0);
    if (!error)
      error = driver.cuEventRecord(events[0], stream);
    if (!error)
      if (altgrad_status status = body())
        return status;
    if (!error)
      error = driver.cuEventRecord(events[1], stream);
    if (!error)
      error = driver.cuEventSynchronize(events[1]);
    if (!error)
      error = driver.cuEventElapsedTime(&ms, events[0], events[1]);
    return error ? driver.refuse(error, "measuring products") : ALTGRAD_OK;
  }

private:
  const Driver &driver;
  CudaStream stream;
  Event events[2] = {};
};

} // namespace

altgrad_status OwnProducts::open() {
  by = altgrad::productsBy();
  if (by == altgrad::ProductsBy::Unknown)
    return fail(ALTGRAD_INVALID, "%s is \"%.100s\"; there are auto, own, strips and library", altgrad::productsVariable,
                secure_getenv(altgrad::productsVariable));
  if (by == altgrad::ProductsBy::Auto && kernels->identity.empty())
    by = altgrad::ProductsBy::Library;
  return ALTGRAD_OK;
}

// Null where they do not do such a product.
Function OwnProducts::kernelFor(const altgrad_gemm &product) const {
  if (!isOf16Bits(product) || product.shift != 0 || !isAligned(product) || product.k > INT32_MAX ||
      product.batch > mostTiles || product.n > mostTiles * ALTGRAD_SYMMETRIC_ROWS)
    return nullptr;
  return kernels->symmetric[product.type][product.a_column != 1];
}

// Batches are a class up to the next power of two, so that there are few.
std::string OwnProducts::keyOf(const altgrad_gemm &product) const {
  int64_t batch = 1;
  while (batch < product.batch)
    batch *= 2;
  std::string shape = product.type == ALTGRAD_GEMM_BF16 ? "bf16" : "f16";
  shape += product.a_column == 1 ? " rows" : " columns";
  shape += product.shift != 0 ? " shifted" : "";
  for (int64_t count : {batch, product.n, product.k, int64_t(product.d != nullptr)})
    shape += " " + std::to_string(count);
  std::string key = "altgrad product 2\n" + kernels->identity;
  addPart(key, "shape", shape);
  addPart(key, "given", given.name);
  return key;
}

altgrad_status OwnProducts::launch(const altgrad_gemm &product) const {
  altgrad_gemm p = product;
  int64_t a = lineOf(p.a_row, p.a_column), b = lineOf(p.b_row, p.b_column);
  float alpha = float(p.alpha), beta = float(p.beta);
  void *parameters[] = {&p.a, &p.b,        &p.d,     &p.c, &p.a_matrix, &a,     &p.b_matrix,
                        &b,   &p.c_matrix, &p.c_row, &p.n, &p.k,        &alpha, &beta};
  auto tiles = [&](int64_t each) { return unsigned((p.n + each - 1) / each); };
  Result error = driver.cuLaunchKernel(
      kernelFor(product), tiles(ALTGRAD_SYMMETRIC_COLUMNS), tiles(ALTGRAD_SYMMETRIC_ROWS), unsigned(p.batch),
      ALTGRAD_BLOCK_THREADS, 1, 1, ALTGRAD_SYMMETRIC_SHARED, static_cast<CudaStream>(p.stream), parameters, nullptr);
  return error ? driver.refuse(error, "a kernel for symmetric products") : ALTGRAD_OK;
}

altgrad_status OwnProducts::multiplyGiven(const altgrad_gemm &product, const Library &library) const {
  altgrad_gemm copy = product; // the function may write to it
  int32_t error = 1;
  try {
    error = given.multiply(&copy, given.context);
  } catch (...) { // leaves it to the library, too
  }
  return error ? library(1) : ALTGRAD_OK;
}

// The library's whole squares come first: the others are compared with them. What is added in place lasts one run.
std::vector<Way> OwnProducts::waysOf(const altgrad_gemm &product) const {
  std::vector<Way> ways{Way::Full};
  if (product.c == product.d)
    return ways;
  const bool isLarge = product.n >= narrowestInStrips && isOf16Bits(product);
  if (isLarge)
    ways.insert(ways.end(), {Way::TwoStrips, Way::FourStrips});
  if (isLarge && given.multiply && product.shift == 0 && isAligned(product))
    ways.push_back(Way::Given);
  if (kernelFor(product))
    ways.push_back(Way::Own);
  return ways;
}

altgrad_status OwnProducts::run(Way way, const altgrad_gemm &product, const Library &library) const {
  if (way == Way::Own)
    return launch(product);
  return way == Way::Given ? multiplyGiven(product, library)
                           : library(way == Way::FourStrips ? 4 : way == Way::TwoStrips ? 2 : 1);
}

altgrad_status OwnProducts::measure(const altgrad_gemm &product, const Library &library, const std::vector<Way> &ways,
                                    std::vector<Try> &tries) const {
  const auto stream = static_cast<CudaStream>(product.stream);
  const altgrad_gemm last = altgrad::matrixOf(product, product.batch - 1);
  for (size_t which = 0; which < ways.size(); ++which) { // memory that is not pinned is there after each call
    std::vector<uint16_t> &codes = tries[which].codes;
    const Library nobody = [&](int32_t) {
      tries[which].refused = true;
      return ALTGRAD_OK;
    };
    codes.resize(size_t(std::min(product.n * product.n, mostCompared)));
    if (Result error = driver.cuMemcpyHtoDAsync(DevicePointer(last.c), codes.data(), codes.size() * 2, stream))
      return driver.refuse(error, "comparing products");
    if (altgrad_status status = run(ways[which], product, ways[which] == Way::Given ? nobody : library))
      return status;
    if (Result error = driver.cuMemcpyDtoHAsync(codes.data(), DevicePointer(last.c), codes.size() * 2, stream))
      return driver.refuse(error, "comparing products");
  }
  Stopwatch watch(driver, stream);
  for (int i = 0; i < rounds; ++i)
    for (size_t which = 0; which < ways.size(); ++which) {
      float ms = 0;
      if (tries[which].refused)
        continue;
      if (altgrad_status status = watch.time([&] { return run(ways[which], product, library); }, ms))
        return status;
      tries[which].ms = std::min(tries[which].ms, ms);
    }
  return ALTGRAD_OK;
}

// Numbers that are not finite decide nothing: whether a way is right could not be seen.
altgrad_status OwnProducts::decide(const altgrad_gemm &product, const Library &library, const std::string &key,
                                   Way &way) const {
  const std::vector<Way> ways = waysOf(product);
  std::vector<Try> tries(ways.size());
  if (altgrad_status status = measure(product, library, ways, tries))
    return status;
  size_t best = 0;
  std::string measured;
  bool refused = false;
  for (size_t i = 0; i < ways.size(); ++i) {
    refused |= tries[i].refused;
    const double far = farthest(tries[i], tries[0], product.type);
    if (std::isnan(far))
      return ALTGRAD_OK;
    if (far <= tolerance && tries[i].ms < tries[best].ms)
      best = i;
    char words[96];
    snprintf(words, sizeof words, ", %s %g ms, %g apart", nameOf(ways[i]), tries[i].ms, far);
    measured += words;
  }
  measured = nameOf(ways[best]) + (":" + measured.substr(1)) + "\n";
  if (!refused) // which another process may not do
    Cache().keep(key, {measured.begin(), measured.end()});
  std::lock_guard<std::mutex> held(decisions().lock); // a second thread may have measured, too
  way = decisions().ways.emplace(key, ways[best]).first->second;
  return ALTGRAD_OK;
}

altgrad_status OwnProducts::fastest(const altgrad_gemm &product, const Library &library, Way &way) const {
  const std::string key = keyOf(product);
  {
    std::lock_guard<std::mutex> held(decisions().lock);
    if (auto found = decisions().ways.find(key); found != decisions().ways.end()) {
      way = found->second;
      return ALTGRAD_OK;
    }
  }
  std::vector<char> words;
  if (!Cache().find(key, words) || words.empty())
    return captured ? ALTGRAD_OK : decide(product, library, key, way);
  if (captured && wayOf(words) == Way::Given) // which may compile in its first call
    return ALTGRAD_OK;
  std::lock_guard<std::mutex> held(decisions().lock);
  way = decisions().ways.emplace(key, wayOf(words)).first->second;
  return ALTGRAD_OK;
}

// What is measured on one machine may be otherwise on another: who asks for bits gets the library's.
altgrad_status OwnProducts::multiply(const altgrad_gemm &product, bool alone, const Library &library) {
  if (by == altgrad::ProductsBy::Library)
    return library(1);
  Way way = Way::Full;
  if (by == altgrad::ProductsBy::Auto && !alone)
    given = symmetricGemm();
  const std::vector<Way> ways = waysOf(product);
  if (by == altgrad::ProductsBy::Auto && !alone && ways.size() > 1) {
    if (altgrad_status status = fastest(product, library, way))
      return status;
  } else if (by == altgrad::ProductsBy::Own && ways.back() == Way::Own) {
    way = Way::Own;
  } else if (by == altgrad::ProductsBy::Strips && ways.size() > 2) {
    way = Way::FourStrips;
  }
  return run(way, product, library);
}
