#define NPU_TILE_SET plain
#include "kernels/tile_bodies.h"
