"""Part 2: are sixteen heads really better than one?"""
