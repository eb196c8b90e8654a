"""headbook: an executable book on what the heads of multi-head attention do."""

import warnings

__version__ = "0.1.0"

# Several libraries load tqdm's notebook bars, which ask for widgets. The bars used here are plain
# text, and the warning would stand, with a path of this machine, on every page of the book.
warnings.filterwarnings("ignore", message="IProgress not found")
