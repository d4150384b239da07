// altgrad-opt as a compiler: `--emit=` and its options.
#ifndef ALTGRAD_CODEGEN_DRIVER_H
#define ALTGRAD_CODEGEN_DRIVER_H

namespace altgrad {

/// Whether the command line asks for a product (--emit, --rule, --list-…,
/// --version, --help) and not for mlir-opt's passes.
bool asksForProduct(int argc, char **argv);

/// Reads a step or generates one, compiles it, writes the product. Exit code: 0,
/// or 1 after a diagnostic; then nothing is written.
int emitProduct(int argc, char **argv);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_H
