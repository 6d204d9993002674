import numpy as np
GROUND = ""
def tile_heights(atlas): return np.zeros(1, np.float32)
