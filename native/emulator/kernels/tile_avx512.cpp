#if defined(__x86_64__)  // compiled with the instructions, see CMakeLists.txt
#define NPU_TILE_SET avx512
#include "kernels/tile_bodies.h"
#endif
