"""Names for numpy arrays of one dimension."""

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
